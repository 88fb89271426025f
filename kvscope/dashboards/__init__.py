"""Dashboards for Grafana: what their panels ask and why, the JSON made of that, and bringing it to a server."""

"""Talking to a Grafana server."""

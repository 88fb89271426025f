"""What to be woken for: one table of recording rules and alerts, for Prometheus, Kubernetes and Grafana."""

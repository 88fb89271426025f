"""What Prometheus is told: one catalogue, a ledger that adds up, and the page that is scraped."""

"""Incidents: what went wrong, since when, for whom, and what it is told from."""

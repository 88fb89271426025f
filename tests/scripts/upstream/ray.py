"""Stands in for Ray, which vLLM's tests import and hardly use: 200 MB that would change nothing here."""

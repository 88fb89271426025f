"""Vocabulary, events and results. No I/O."""

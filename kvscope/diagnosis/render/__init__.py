"""A diagnosis as a page, and as twelve lines to paste."""

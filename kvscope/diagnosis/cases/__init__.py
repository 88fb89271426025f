"""The cases, one small function for each slug: whether it fits, and by which numbers."""

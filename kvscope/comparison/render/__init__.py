"""A comparison as people see it."""

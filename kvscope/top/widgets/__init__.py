"""What Textual needs of a view: one widget per file."""

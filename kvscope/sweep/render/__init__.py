"""A sweep as HTML, Markdown and pictures."""

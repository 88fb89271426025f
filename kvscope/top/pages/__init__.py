"""One file per view: text made of a snapshot, and nothing computed that is not shown."""

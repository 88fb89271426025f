"""The live terminal view: pages are text made of snapshots, widgets show them."""

"""A sweep: the same loads under every mode, cell by cell, each kept when it is done."""

"""What the time to first token would be under another connector or dispatch: the graph replayed, with bounds."""

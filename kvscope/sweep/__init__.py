"""What came of a sweep: figures for each cell, differences between modes, and the pages that tell of both."""

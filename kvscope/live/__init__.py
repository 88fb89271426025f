"""A fleet as it is now: events keep coming, and a picture of the last minute can be had at any time. Draws nothing."""

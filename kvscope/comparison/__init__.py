"""Two sets of requests beside each other: what differs among requests that are alike, and what cannot be compared."""

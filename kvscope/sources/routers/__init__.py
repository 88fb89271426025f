"""What other projects' routers write of the requests that pass them, as a router's moments."""

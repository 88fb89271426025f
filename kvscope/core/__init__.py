"""From events to each request's path: order the legs, join them, walk back. Pure functions of columns."""

"""How results look in a terminal. Everything here is text made of data; nothing is computed that is not shown."""

"""What the added lines call. Nothing here raises, blocks or calls into the transfer library."""


__all__ = [name for name in dir() if not name.startswith("_")]

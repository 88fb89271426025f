"""A package, so that pytest ends its pair after its last test, and not after the last of all."""

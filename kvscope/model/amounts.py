"""Amounts of bytes for people."""

from __future__ import annotations


def in_bytes(amount: int) -> str:
    """`512 bytes`, `12.3 kB`, `64.0 MB`, `2.5 GB`."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if amount >= 0.1 * factor and amount >= 1000:
            return f"{amount / factor:,.1f} {unit}"
    return f"{amount} byte{'' if amount == 1 else 's'}"

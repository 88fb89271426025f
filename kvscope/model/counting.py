"""How many of something, in words."""

from __future__ import annotations


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 request`, `1,204 requests`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def most(part: float, whole: float) -> str:
    """How to speak of the largest of several parts: it is `most` only if it is more than all others together."""
    return "most" if 2 * part > whole else "the largest part"

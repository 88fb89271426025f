"""How far a long work is, for the person who waits."""

from __future__ import annotations

import time

from kvscope.cli.outcome import say

EVERY_S = 1.0
"""Between two lines of progress."""


class Progress:
    """Says how far it is, now and then, where a person waits."""

    def __init__(self, what: str, after_s: float = EVERY_S) -> None:
        """after_s: what takes no longer is not worth a line."""
        self._what, self._next = what, time.monotonic() + after_s

    def __call__(self, share: float) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + EVERY_S
            say(f"{self._what}: {share:.0%}")

"""Texts of one kind, until records name them: what no record names is not given away."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

WAITING = 200_000
"""Texts, and keys without one, that are kept at most."""


class Texts:
    """By the low bytes of their keys. Texts and the records that name them may come in either order."""

    def __init__(self) -> None:
        self._told: dict[int, str] = {}
        self._named: dict[int, None] = {}

    def tell(self, pairs: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
        """Take texts; returns those that were named before."""
        found = []
        for key, text in pairs:
            if key in self._named:
                del self._named[key]
                found.append((key, text))
            else:
                self._told[key] = text
        _trim(self._told)
        return found

    def name(self, keys: Iterable[int]) -> list[tuple[int, str]]:
        """Records name them; returns those texts that were not given out since they were told last."""
        found = []
        for key in keys:
            text = self._told.pop(key, None)
            if text is None:
                self._named[key] = None
            else:
                found.append((key, text))
        _trim(self._named)
        return found


def _trim(kept: dict[int, str] | dict[int, None]) -> None:
    for key in list(islice(kept, max(len(kept) - WAITING, 0))):
        del kept[key]

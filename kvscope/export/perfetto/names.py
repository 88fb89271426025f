"""Texts that packets refer to by number: each is written once, before the first packet that uses it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from kvscope.export.perfetto.fields import messages

Kind = Literal[
    "event_categories", "event_names", "debug_annotation_names", "debug_annotation_string_values", "correlation_id_str"
]
CATEGORIES: Kind = "event_categories"
NAMES: Kind = "event_names"
ARG_NAMES: Kind = "debug_annotation_names"
TEXTS: Kind = "debug_annotation_string_values"
COLOURS: Kind = "correlation_id_str"
_AS_BYTES = (TEXTS, COLOURS)

REMEMBERED = 100_000
"""Texts of one kind; beyond that they are told anew."""


class Names:
    """The numbers given so far."""

    def __init__(self) -> None:
        self._numbers: dict[Kind, dict[str, int]] = {}
        self._given = 0
        self._new: list[tuple[Kind, str, int]] = []

    def number(self, kind: Kind, text: str) -> int:
        """The number of a text."""
        known = self._numbers.setdefault(kind, {})
        found = known.get(text)
        if found is None:
            if len(known) >= REMEMBERED:
                known.clear()
            self._given += 1
            found = known[text] = self._given
            self._new.append((kind, text, found))
        return found

    def numbers(self, kind: Kind, texts: Sequence[str]) -> np.ndarray:
        """(n,) u8"""
        return np.array([self.number(kind, text) for text in texts], np.uint64)

    def news(self) -> messages.InternedData | None:
        """What was numbered since this was asked last; None if nothing was."""
        if not self._new:
            return None
        told = messages.InternedData()
        for kind, text, number in self._new:
            entry = getattr(told, kind).add()
            entry.iid = number
            data = text.encode("utf-8", "replace")
            if kind in _AS_BYTES:
                entry.str = data
            else:
                entry.name = data.decode()
        self._new.clear()
        return told

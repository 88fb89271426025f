"""A recording whose request ids are hidden while it is written. Standard library only.

Everything else stays as it is. Which texts are ids is told by the records: those that stand for requests are; an
engine's name or its words for a failure are not. So texts wait until a record names them. Any other text that a value
names is left out: the span that a request came under is an id, too, and in a store of spans it leads to the request.
"""

from __future__ import annotations

import sys
from itertools import islice
from typing import Any

from kvscope.probe import layout
from kvscope.probe.ids import Ids
from kvscope.probe.recording import Writer
from kvscope.probe.vocabulary import MOMENT_CODE, TEXT_VALUES, UNKNOWN, VALUES

WAITING = 200_000
"""Texts that wait at most, by kind: some 40 MB. Rings tell a text anew before its records can be without it."""

SIZE = layout.RECORD_BYTES
_REQUEST, _PEER, _MOMENT, _FIRST_VALUE = 16, 32, 48, SIZE - 8 * layout.VALUES
_NOTHING = UNKNOWN.to_bytes(8, sys.byteorder, signed=True)
SAFE = frozenset(("peer_engine", "reason_text"))
"""Values that name texts which are no ids."""


def _places(wanted: frozenset[str]) -> dict[int, tuple[int, ...]]:
    """moment -> where in its records these values are"""
    return {
        MOMENT_CODE[moment]: tuple(_FIRST_VALUE + 8 * names.index(name) for name in names if name in wanted)
        for moment, names in VALUES.items()
        if wanted & frozenset(names)
    }


_PLAIN, _HIDDEN = _places(SAFE), _places(TEXT_VALUES - SAFE)


def hiding(writer: Writer, ids: Ids | None) -> Writer:
    """What to write a recording to, so that `writer` gets it with ids as `ids` has them; None: as they are."""
    return Hiding(writer, ids) if ids else writer


class Hiding(Writer):
    """Takes what a recording is made of, and passes it on with ids as `ids` has them."""

    def __init__(self, to: Writer, ids: Ids) -> None:
        self._to, self._ids = to, ids
        self._names: dict[bytes, str] = {}
        """low bytes of a key -> text that no record has named as an id"""
        self._words: dict[bytes, tuple[bytes, str]] = {}
        """.. as something else, with its whole key"""
        self._keys: dict[bytes, bytes] = {layout.NO_KEY: layout.NO_KEY}

    def head(self, info: dict[str, Any]) -> None:
        """What the file says of itself."""
        self._to.head(info)

    def process(self, process: int, info: dict[str, Any]) -> None:
        """Who it is, and that its ids are hidden."""
        self._to.process(process, info | {"ids": self._ids.mode})

    def texts(self, pairs: list[tuple[bytes, str]]) -> None:
        """Texts are passed on with the records that name them."""
        for key, text in pairs:
            self._names[key[:8]], self._words[key[:8]] = text, (key, text)
        for waiting in (self._names, self._words):
            for key in list(islice(waiting, max(len(waiting) - WAITING, 0))):
                del waiting[key]

    def records(self, process: int, thread: int, raw: bytes) -> None:
        """Whole records, each id's key made anew."""
        hidden, told = bytearray(raw), list[tuple[bytes, str]]()
        for at in range(0, len(raw), SIZE):
            for place in (at + _REQUEST, at + _PEER):
                hidden[place : place + 16] = self._key(raw[place : place + 16], told)
            for place in _HIDDEN.get(raw[at + _MOMENT], ()):
                hidden[at + place : at + place + 8] = _NOTHING
            for place in _PLAIN.get(raw[at + _MOMENT], ()):
                if word := self._words.pop(raw[at + place : at + place + 8], None):
                    told.append(word)
        self._to.texts(told)
        self._to.records(process, thread, bytes(hidden))

    def end(self, info: dict[str, Any]) -> None:
        """Say that this is all."""
        self._to.end(info)

    def mark(self, info: dict[str, Any]) -> None:
        """Say what time it is, and how far the rings have been read."""
        self._to.mark(info)

    def _key(self, key: bytes, told: list[tuple[bytes, str]]) -> bytes:
        """The key in its place; where the id was told since it was named last, its name is told."""
        found = self._keys.get(key)
        if found is None:
            if len(self._keys) > WAITING:
                self._keys = {layout.NO_KEY: layout.NO_KEY}
            found = self._keys[key] = self._ids.key(key[:8])
        text = self._names.pop(key[:8], None)
        if text is not None:
            told.append((found, self._ids.name(text)))
        return found

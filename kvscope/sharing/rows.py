"""Records, many at a time: what `allowed` says becomes of each of their fields."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from kvscope.probe import layout
from kvscope.probe.vocabulary import LEGS, MOMENTS, REASONS, STATES, THREADS, UNKNOWN, VALUES
from kvscope.sharing import allowed
from kvscope.sharing.allowed import Rule
from kvscope.sharing.clocks import Clock
from kvscope.sharing.names import Names
from kvscope.sharing.rounding import rounded
from kvscope.sources.jsonl import FLAGS
from kvscope.sources.records import RECORD, Rows, records

REMEMBERED = 200_000
"""Keys whose new ones are known: some 30 MB."""
ALL_FLAGS = sum(FLAGS.values())
CODES = {"thread": THREADS, "state": STATES, "reason": REASONS}
NO_LEG = 255
"""What readers count as none, whatever it was."""


def _where(*wanted: Rule, kind: str = "") -> np.ndarray:
    """(moment, slot) bool: the values that one of these rules is for, of one kind if one is given"""
    found = np.zeros((256, layout.VALUES), bool)
    for code, moment in enumerate(MOMENTS):
        for slot, name in enumerate(VALUES.get(moment, ())):
            field = allowed.VALUES.get(name, allowed.UNDECIDED)
            found[code, slot] = field.rule in wanted and kind in ("", field.kind)
    return found


_KEPT, _TIMED, _SIZES, _INSTANTS = map(_where, (Rule.KEPT, Rule.TIMED, Rule.ROUNDED, Rule.SHIFTED))
_WORDS = {kind: _where(Rule.RENAMED, Rule.HASHED, kind=kind) for kind in ("engine", "reason")}


class Keys(dict[int, tuple[int, int]]):
    """Low bytes of a key -> both halves of its new one. No key stays none."""

    def __init__(self, made: Callable[[bytes], bytes]) -> None:
        """`made`: the low 8 bytes of a key -> the 16 of its new one"""
        super().__init__()
        self._make = made
        self.made = 0
        """How many; one that was forgotten counts again."""

    def __missing__(self, low: int) -> tuple[int, int]:
        if len(self) >= REMEMBERED:
            self.clear()
        key = self._make(low.to_bytes(8, "little")) if low else layout.NO_KEY
        self.made += low != 0
        found = self[low] = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
        return found


class Redaction:
    """Makes records that may be given away."""

    def __init__(self, names: Names, keep_time: bool) -> None:
        self.keys = {"id": Keys(names.ids.key)} | {kind: Keys(partial(names.key, kind)) for kind in _WORDS}
        """By what the text is that a key stands for. One that is several things has as many keys."""
        self._keep_time = keep_time
        self._named: dict[str, list[int]] = {}
        self.unknown = 0
        """Records of moments that this version does not know: none of them is given away."""

    def of(self, raw: bytes, clock: Clock) -> tuple[bytes, dict[str, list[int]]]:
        """(as many records, what they name: kind -> low bytes of keys as they were), of whole records of one host. A
        void one stays so."""
        given = records(raw)
        self._named = {}
        rows = np.zeros(len(given), RECORD)
        rows["sequence"] = given["sequence"]
        moment = given["moment"]
        self.unknown += int(np.count_nonzero(moment >= len(MOMENTS)))
        there = (moment > 0) & (moment < len(MOMENTS))
        found = given if there.all() else given[there]
        rows[there] = self._redacted(found, clock)
        return rows.tobytes(), self._named

    def _redacted(self, given: Rows, clock: Clock) -> Rows:
        rows = np.zeros(len(given), RECORD)
        for name, field in allowed.RECORD.items():
            if field.rule == Rule.KEPT:
                rows[name] = given[name]
        for name, words in CODES.items():
            rows[name][rows[name] >= len(words)] = 0
        rows["leg"][rows["leg"] >= len(LEGS)] = NO_LEG
        rows["flags"] &= ALL_FLAGS
        rows["t"] = clock.events(given["t"])
        self._hash(given, rows)
        rows["values"] = self._values(given, clock)
        return rows

    def _hash(self, given: Rows, rows: Rows) -> None:
        both = np.stack((given["request"], given["peer"]))
        new = self._new("id", both)
        for place, name in enumerate(("request", "peer")):
            rows[name], rows[f"{name}_high"] = new[0, place], new[1, place]

    def _values(self, given: Rows, clock: Clock) -> np.ndarray:
        """(n, 6) i8"""
        values, moment = given["values"], given["moment"]
        found, told = np.full(values.shape, UNKNOWN), values != UNKNOWN
        kept = told & (_KEPT | _TIMED if self._keep_time else _KEPT)[moment]
        found[kept] = values[kept]
        sizes, instants = (told & where[moment] for where in (_SIZES, _INSTANTS))
        found[sizes] = rounded(values[sizes])
        found[instants] = clock.instants(values[instants])
        for kind, where in _WORDS.items():
            words = told & where[moment]
            found[words] = self._new(kind, values[words].view(np.uint64))[0].view(np.int64)
        return found

    def _new(self, kind: str, given: np.ndarray) -> np.ndarray:
        """u8 -> (2, ..) u8: both halves of the new keys"""
        told, place = np.unique(given, return_inverse=True)
        self._named[kind] = named = told.tolist()
        new = np.array([self.keys[kind][key] for key in named], np.uint64).reshape(-1, 2)
        return np.asarray(new[place.reshape(given.shape)].transpose(-1, *range(given.ndim)))

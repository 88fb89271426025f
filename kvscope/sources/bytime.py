"""Events by the time they happened, for whoever goes through them bit by bit, forwards and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from kvscope.model.errors import InputError
from kvscope.model.events import EVENT, Events, Process, picked
from kvscope.probe.vocabulary import MOMENT_CODE, TEXT_VALUES, VALUES

SPAN = np.dtype([("first", "i8"), ("last", "i8"), ("count", "i8")])
"""A piece of what was recorded: its first time, its last, how many events"""
BLOCK = 1024
"""Events of a piece, where they are all in memory."""
FAR = 2**62
"""ns: no event lies beyond."""

_STARTED = MOMENT_CODE["started"]
_TEXT_SLOTS = [
    (MOMENT_CODE[moment], names.index(name)) for moment, names in VALUES.items() for name in TEXT_VALUES & {*names}
]


class ByTime(Protocol):
    """A stretch of the past. Times are ns of the events' clock."""

    begin: int
    end: int
    """The last event."""
    impossible: int
    """Records whose time no event can have: they lie nowhere."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences: what was damaged, cut, absent or unknown."""

    @property
    def processes(self) -> tuple[Process, ...]:
        """Every process, as it was known in the end."""

    def pieces(self, after: int, until: int) -> np.ndarray:
        """shape (n,), dtype SPAN, by first time: what has to be looked at for the events of (after, until]."""

    def between(self, after: int, until: int) -> Events:
        """The events of (after, until], the texts that they name, and the processes that were there by `until`."""

    @property
    def reaches(self) -> np.ndarray:
        """(processes, 2) i8: the first event of each process and its last; of one without any, FAR and -FAR."""

    def whole(self, after: int, until: int, which: np.ndarray | None = None) -> Events:
        """The events of (after, until], the texts that they name, and every process, as it was known in the end.
        which: (processes,) bool, those whose events are wanted."""

    def settled(self, found: np.ndarray) -> tuple[tuple[Process, ...], tuple[str, ...]]:
        """(every process, notes), once all was gone through. found: (processes,) events of each, in all."""

    def next_after(self, t: int) -> int | None:
        """When the next event is, or None if there is none."""

    def close(self) -> None:
        """Let go of what is held."""


class Spans:
    """Pieces in the order of their first times, found by time. They may overlap."""

    def __init__(self, table: np.ndarray) -> None:
        """`table`: shape (n,), its dtype holds the fields of SPAN, ordered by first time."""
        self.table = table
        self._latest = np.maximum.accumulate(table["last"])

    def overlapping(self, after: int, until: int) -> np.ndarray:
        """Rows of the table that may hold events of (after, until]."""
        low = int(np.searchsorted(self._latest, after, "right"))
        high = int(np.searchsorted(self.table["first"], until, "right"))
        return low + np.flatnonzero(self.table["last"][low:high] > after)

    def pieces(self, after: int, until: int) -> np.ndarray:
        """As `ByTime` has it."""
        return np.asarray(self.table[self.overlapping(after, until)][list(SPAN.names or ())].astype(SPAN))


class Loaded:
    """Events that are all in memory."""

    def __init__(self, events: Events, notes: Sequence[str] = ()) -> None:
        """`events` must not be empty. InputError: none of them can be."""
        rows = events.rows[np.argsort(events.rows["t"], kind="stable")]
        self.impossible = events.impossible + len(rows)
        rows = rows[(rows["t"] > -FAR) & (rows["t"] < FAR)]
        self.impossible -= len(rows)
        if not len(rows):
            raise InputError("there is no event with a possible time; name another file")
        # What an engine says of itself may carry no time.
        timed = rows["t"][(rows["moment"] != _STARTED) | (rows["t"] != 0)]
        self._events, self._t = Events(rows, events.processes, events.texts), np.ascontiguousarray(rows["t"])
        self.begin, self.end = int((timed if len(timed) else self._t)[0]), int(self._t[-1])
        self.notes = tuple(notes)
        self._spans = Spans(_blocks(self._t))

    def pieces(self, after: int, until: int) -> np.ndarray:
        """As `ByTime` has it."""
        return self._spans.pieces(after, until)

    def between(self, after: int, until: int) -> Events:
        """As `ByTime` has it; every process is there from the beginning."""
        low, high = np.searchsorted(self._t, (after, until), "right")
        rows, texts = self._events.rows[low:high], self._events.texts
        known = {key: texts[key] for key in text_keys(rows).tolist() if key in texts}
        return Events(rows.copy(), self._events.processes, known)

    @property
    def processes(self) -> tuple[Process, ...]:
        """As `ByTime` has it."""
        return self._events.processes

    @property
    def reaches(self) -> np.ndarray:
        """As `ByTime` has it."""
        return reaches_of(self._events.rows["process"], self._t, self._t, len(self.processes))

    def whole(self, after: int, until: int, which: np.ndarray | None = None) -> Events:
        """As `ByTime` has it."""
        found = self.between(after, until)
        return found if which is None else replace(found, rows=picked(found.rows, which[found.rows["process"]]))

    def settled(self, found: np.ndarray) -> tuple[tuple[Process, ...], tuple[str, ...]]:
        """As `ByTime` has it."""
        return self.processes, self.notes

    def next_after(self, t: int) -> int | None:
        """As `ByTime` has it."""
        at = int(np.searchsorted(self._t, t, "right"))
        return int(self._t[at]) if at < len(self._t) else None

    def close(self) -> None:
        """Nothing is held but memory."""


def reaches_of(process: np.ndarray, first: np.ndarray, last: np.ndarray, processes: int) -> np.ndarray:
    """As `ByTime.reaches`, of pieces of so many processes. process, first, last: (n,)"""
    found = np.tile(np.array([FAR, -FAR], np.int64), (processes, 1))
    np.minimum.at(found[:, 0], process, first)
    np.maximum.at(found[:, 1], process, last)
    return found


def _blocks(t: np.ndarray) -> np.ndarray:
    begins = np.arange(0, len(t), BLOCK)
    table = np.empty(len(begins), SPAN)
    table["first"], table["last"] = t[begins], t[np.minimum(begins + BLOCK, len(t)) - 1]
    table["count"] = np.diff(begins, append=len(t))
    return table


def text_keys(rows: np.ndarray) -> np.ndarray:
    """The keys that rows (dtype EVENT) name texts by, each once; 0 may be among them."""
    moment, values = np.ascontiguousarray(rows["moment"]), rows["values"]
    told = [values[np.flatnonzero(moment == code), slot] for code, slot in _TEXT_SLOTS]
    ids = [each[each != 0] for each in (np.ascontiguousarray(rows[name]) for name in ("request", "peer"))]
    return np.unique(np.concatenate([*ids, np.concatenate([np.empty(0, np.int64), *told]).view(np.uint64)]))


def together(parts: Sequence[Events]) -> Events:
    """Several sets as one, with one table of processes."""
    if len(parts) == 1:
        return parts[0]
    offset, rows = 0, [np.empty(0, EVENT)]
    for part in parts:
        rows.append(part.rows.copy())
        rows[-1]["process"] += offset
        offset += len(part.processes)
    processes = tuple(process for part in parts for process in part.processes)
    return Events(np.concatenate(rows), processes, {key: text for part in parts for key, text in part.texts.items()})

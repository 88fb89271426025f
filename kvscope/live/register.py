"""Requests laid side by side once, so that a picture of thousands is a view of them and copies nothing.

A picture may be looked at for as long as anybody likes, and the next ones are made meanwhile. So a table is written
again only when nobody holds an array that lies in it; else another table takes its place, and is first brought up to
where that one is. Two or three tables are enough: one is shown, one is drawn, one is written.
"""

from __future__ import annotations

import sys

import numpy as np

from kvscope.model.engines import Merged
from kvscope.model.requests import Tally
from kvscope.model.splits import COLUMNS, Splits

SPARE = 1_024
"""Rows of a table, at least, besides half as many again as it must hold."""
MOST_CHANGES = 4_096
"""How many are known; who is further behind is written whole."""


class Register:
    """Rows by place: the first has place 0, and none ever changes its place."""

    def __init__(self, none: Splits) -> None:
        """`none`: splits of no request, for the columns' types."""
        self._none = none
        self._engines = Merged()
        self._carves = none.carves
        """by place"""
        self._tables: list[_Table] = []
        """the last one is complete"""
        self._begin = self._end = 0
        self._changed: list[np.ndarray] = []
        """places written anew, in that order"""

    def __len__(self) -> int:
        return self._end - self._begin

    @property
    def begin(self) -> int:
        """Place of the first row that is kept."""
        return self._begin

    @property
    def rows(self) -> Splits:
        """All that is kept: a view, without texts."""
        return self._view(self._tables[-1], self._begin, self._none) if self._tables else self._none

    def add(self, splits: Splits) -> np.ndarray:
        """Lay these after the others; (n,) their places."""
        places = np.arange(self._end, self._end + len(splits))
        if len(splits):
            self._writable(len(splits)).put(self._columns(splits), places)
            self._end += len(splits)
            self._carve(splits, places)
        return places

    def replace(self, places: np.ndarray, splits: Splits) -> None:
        """Lay these where others of the same requests lie; places: (n,), kept, each once."""
        if len(places):
            if len(self._changed) == MOST_CHANGES:
                self._changed.clear()
                self._tables = self._tables[-1:]
                self._tables[0].changes = 0
            self._changed.append(places)
            self._writable(0).put(self._columns(splits), places)
            self._carve(splits, places)

    def forget(self, before: int) -> None:
        """Keep nothing of the places before this one."""
        self._begin = max(self._begin, min(before, self._end))
        self._carves = self._carves[np.searchsorted(self._carves["row"], self._begin) :]

    def view(self, begin: int, tail: Splits) -> Splits:
        """The rows from this place on, and these behind them until something else is written; `now` is the tail's,
        texts and tally are the caller's to give."""
        table = self._writable(len(tail))
        table.put(self._columns(tail), np.arange(self._end, self._end + len(tail)))
        return self._view(table, max(begin, self._begin), tail)

    def _view(self, table: _Table, begin: int, tail: Splits) -> Splits:
        first, last = begin - table.first, self._end + len(tail) - table.first
        columns = {name: column[first:last] for name, column in table.columns.items()}
        mine = self._carves[np.searchsorted(self._carves["row"], begin) :].copy()
        theirs = tail.carves.copy()
        mine["row"] -= begin
        theirs["row"] += self._end - begin
        carves = np.concatenate((mine, theirs))
        engines = self._engines.processes
        return Splits(
            carves=carves, engines=engines, texts={}, now=tail.now, tally=Tally(), clocks=tail.clocks, **columns
        )

    def _columns(self, splits: Splits) -> dict[str, np.ndarray]:
        """With engines numbered as here."""
        columns = {name: getattr(splits, name) for name in COLUMNS}
        where = np.append(self._engines.places(splits.engines), np.int32(-1))
        for name in ("prefill_engine", "decode_engine"):
            columns[name] = where[columns[name]]
        return columns

    def _carve(self, splits: Splits, places: np.ndarray) -> None:
        kept = self._carves[~np.isin(self._carves["row"], places)] if len(self._carves) else self._carves
        new = splits.carves.copy()
        new["row"] = places[new["row"]]
        carves = np.concatenate((kept, new))
        self._carves = carves[np.argsort(carves["row"], kind="stable")]

    def _writable(self, more: int) -> _Table:
        """A complete table with room for so many more rows, of which nobody outside holds a part; it is the last."""
        there = next((table for table in reversed(self._tables) if table.fits(self._end + more) and table.alone), None)
        if there is None:
            there = _Table(
                self._none, self._begin, (self._end - self._begin + more) * 3 // 2 + SPARE, len(self._changed)
            )
        self._complete(there)
        # The others stay as long as they may be of use: what does not fit now never will.
        fitting = [table for table in self._tables if table is not there and table.fits(self._end + more)]
        self._tables = [*fitting, there]
        return there

    def _complete(self, table: _Table) -> None:
        """Bring it up to where the last one is."""
        if self._tables and self._tables[-1] is not table:
            changed = [places[places < table.end] for places in self._changed[table.changes :]]
            begin = max(self._begin, table.first)
            anew = np.unique(np.concatenate([*changed, np.arange(max(table.end, begin), self._end)]))
            table.copy(self._tables[-1], anew[anew >= begin])
        table.changes, table.end = len(self._changed), self._end


class _Table:
    """Columns with room for more rows."""

    def __init__(self, none: Splits, first: int, room: int, changes: int) -> None:
        """first: place of its first row."""
        types = {name: getattr(none, name) for name in COLUMNS}
        self.columns = {name: np.empty((room, *like.shape[1:]), like.dtype) for name, like in types.items()}
        self.first, self.end, self.changes = first, first, changes
        """It has the rows up to `end`, and so many of the register's changes."""
        self._room = room
        self._holders = self._count()

    def _count(self) -> int:
        """References to the columns: a view of one, wherever it is, is a reference to it."""
        return sum(map(sys.getrefcount, self.columns.values()))

    @property
    def alone(self) -> bool:
        """Whether no view of it is held by anybody. Nobody can come to hold one then, but through here."""
        return self._count() <= self._holders

    def fits(self, end: int) -> bool:
        """Whether it has room up to this place."""
        return end - self.first <= self._room

    def put(self, columns: dict[str, np.ndarray], places: np.ndarray) -> None:
        """Write at these places."""
        at = _side_by_side(places - self.first)
        for name, column in columns.items():
            self.columns[name][at] = column

    def copy(self, other: _Table, places: np.ndarray) -> None:
        """Write at these places what the other has there."""
        here, there = _side_by_side(places - self.first), _side_by_side(places - other.first)
        for name, column in self.columns.items():
            column[here] = other.columns[name][there]


def _side_by_side(at: np.ndarray) -> np.ndarray | slice:
    """The same as a slice where it is one."""
    n = len(at)
    return slice(int(at[0]), int(at[0]) + n) if n and (np.diff(at) == 1).all() else at

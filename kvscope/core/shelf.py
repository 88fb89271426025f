"""Rows laid down by owner, many owners at a time, and taken up again likewise.

What is laid down together stays one array: of each owner only where its rows lie is noted, since an array for each
of a thousand owners costs more than what they hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

from kvscope.model.events import EVENT, picked, stacked

WASTE = 65_536
"""Rows that were taken up and still take room, at least, before the rest is laid together anew."""


class Shelf:
    """Rows (dtype EVENT), and beside each the id of its leg."""

    def __init__(self) -> None:
        self._slabs: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._places: dict[int, list[tuple[int, int, int]]] = {}
        """owner -> (slab, begin, end) of its rows"""
        self._laid = self._count = self._next = 0

    def __len__(self) -> int:
        """Rows."""
        return self._count

    @property
    def rows(self) -> np.ndarray:
        """All of them: a copy."""
        return self._at(_table(chain.from_iterable(self._places.values())))[0]

    def put(self, owners: Sequence[int], which: np.ndarray, rows: np.ndarray, ids: np.ndarray) -> None:
        """Rows of these owners, each named once; which: (n,) index into `owners` of each row."""
        if not len(rows):
            return
        order = np.argsort(which, kind="stable")
        ends = np.cumsum(np.bincount(which, minlength=len(owners))).tolist()
        self._slabs[self._next] = picked(rows, order), ids[order]
        for owner, begin, end in zip(owners, [0, *ends[:-1]], ends, strict=True):
            if begin < end:
                self._places.setdefault(owner, []).append((self._next, begin, end))
        self._next += 1
        self._laid += len(rows)
        self._count += len(rows)

    def take(self, owners: Iterable[int]) -> tuple[np.ndarray, np.ndarray]:
        """All rows of these owners, and the ids beside them; they are on the shelf no more."""
        rows, ids = self._at(_table(chain.from_iterable(self._places.pop(owner, ()) for owner in owners)))
        self._count -= len(rows)
        if self._laid - self._count > self._count + WASTE:
            self._lay_anew()
        return rows, ids

    def _at(self, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """table: as `_table` makes it."""
        parts = [(np.empty(0, EVENT), np.empty(0, np.uint64))]
        edges = np.flatnonzero(np.diff(table[:, 0])) + 1
        for places in np.split(table, edges) if len(table) else []:
            rows, ids = self._slabs[int(places[0, 0])]
            at = ranges(places[:, 1], places[:, 2])
            parts.append((picked(rows, at), ids[at]))
        return stacked([rows for rows, _ in parts]), np.concatenate([ids for _, ids in parts])

    def _lay_anew(self) -> None:
        """All that is left, in one array."""
        owners = list(self._places)
        table = _table((*place, number) for number, places in enumerate(self._places.values()) for place in places)
        rows, ids = self._at(table)
        self._slabs, self._places = {}, {}
        self._laid = self._count = 0
        self.put(owners, np.repeat(table[:, -1], table[:, 2] - table[:, 1]), rows, ids)


def _table(places: Iterable[tuple[int, ...]]) -> np.ndarray:
    """(slab, begin, end, ..) in the order of slabs; shape (n, 3 or more)"""
    table = np.array(list(places), np.int64)
    return table[np.argsort(table[:, 0], kind="stable")] if len(table) else table.reshape(0, 4)


def ranges(begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """begins, ends: (n,) -> the indices of all stretches, one after the other."""
    lengths = ends - begins
    starts = np.cumsum(lengths) - lengths
    return np.asarray(np.repeat(begins - starts, lengths) + np.arange(lengths.sum()))

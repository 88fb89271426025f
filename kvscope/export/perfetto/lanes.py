"""Rows for what overlaps: each slice goes onto the first lane on which nothing else lies at that time."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

MEMORY_NS = 1_500_000_000_000
"""How far behind the latest slice one can still fit into a gap: what is told of later goes onto a lane of its own."""
_OFTEN = 4096


class Lanes:
    """Which times of each lane are taken. Slices may come in any order."""

    def __init__(self) -> None:
        self._begins: list[list[int]] = []
        self._ends: list[list[int]] = []
        self._latest, self._count = 0, 0

    def place(self, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """(n,) i8 lane of each slice: nothing on it touches the slice."""
        if not len(begin):
            return np.empty(0, np.int64)
        order = np.lexsort((end, begin))
        lanes = np.empty(len(begin), np.int64)
        for index, low, high in zip(order.tolist(), begin[order].tolist(), end[order].tolist(), strict=True):
            lanes[index] = self._lane(low, high)
        self._forget()
        return lanes

    def _lane(self, begin: int, end: int) -> int:
        self._latest, self._count = max(self._latest, end), self._count + 1
        for lane, (begins, ends) in enumerate(zip(self._begins, self._ends, strict=True)):
            at = bisect_right(begins, end)
            if at == 0 or ends[at - 1] < begin:
                begins.insert(at, begin)
                ends.insert(at, end)
                return lane
        self._begins.append([begin])
        self._ends.append([end])
        return len(self._begins) - 1

    def _forget(self) -> None:
        """Take all that is long over for one stretch."""
        if self._count < _OFTEN:
            return
        self._count = 0
        for begins, ends in zip(self._begins, self._ends, strict=True):
            old = bisect_right(ends, self._latest - MEMORY_NS)
            if old > 1:
                del begins[1:old], ends[: old - 1]


class Sequence:
    """Lanes of what mostly follows one after the other: in the order of its ends, and rarely overlapping."""

    def __init__(self) -> None:
        self._last = np.empty(0, np.int64)
        """(lanes,) the latest end on each"""

    def place(self, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """(n,) i8 lane of each slice, in the order of `end`: it begins when the one before on it is over, or later."""
        lanes = np.zeros(len(begin), np.int64)
        if not len(begin):
            return lanes
        before = np.append(self._last[0] if len(self._last) else begin[0], end[:-1])
        if (begin >= before).all():
            self._last = np.append(end[-1], self._last[1:])
            return lanes
        for index, (low, high) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
            free = self._last <= low
            lane = int(free.argmax()) if free.any() else len(free)
            if lane == len(free):
                self._last = np.append(self._last, high)
            self._last[lane] = high
            lanes[index] = lane
        return lanes

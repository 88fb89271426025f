"""Taking what is new out of one ring that is being written, without stopping its writer.

A slot holds index + 1 of the record in it. Slots ahead of the writer hold the lap before, hence less; so the
new records are the run, from the next index on, of slots that hold what they should. Whatever the writer may
have touched while it was copied is thrown away and counted.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvscope.probe import layout
from kvscope.sources.records import Raw

STEP = 512


class RingDrain:
    """Where one ring stands. `slots` is the ring in shared memory: shape (capacity,), a power of two."""

    def __init__(self, slots: Raw) -> None:
        self._slots = slots
        self._sequences: npt.NDArray[np.uint64] = slots["sequence"]
        self._capacity = len(slots)
        self.next = 0
        """Index of the next record to take: so many were taken or lost."""
        self.lost = 0
        """Records that nobody can read any more: overwritten, or begun and never published."""

    def take(self, ended: bool = False) -> Raw:
        """The records published since the last call, in order. `ended`: no writer is left, so nothing is to come."""
        if not self._waiting():
            return self._slots[:0]
        self._skip_overwritten()
        begin, end = self.next, self._run_end(self.next)
        head = self._head(end)
        if ended or (end == begin and head > end + layout.GUARD):
            end = head
        copied = self._copy(begin, end)
        safe = self._head(end) - self._capacity + layout.GUARD
        kept = copied[max(safe - begin, 0) :]
        whole: Raw = kept[kept["sequence"] == np.arange(end - len(kept) + 1, end + 1, dtype=np.uint64)]
        self.lost += end - begin - len(whole)
        self.next = end
        return whole

    def _waiting(self) -> bool:
        """Whether the next slot, or a few behind it, hold something new."""
        slots = (self.next + np.arange(layout.GUARD + 1)) & (self._capacity - 1)
        return bool((self._sequences[slots] > self.next).any())

    def _skip_overwritten(self) -> None:
        """Leave behind what a lap of the writer has gone over."""
        if int(self._sequences[self.next & (self._capacity - 1)]) > self.next + 1:
            oldest = self._head(int(self._sequences.max())) - self._capacity + layout.GUARD
            self.lost += max(oldest - self.next, 0)
            self.next = max(self.next, oldest)

    def _head(self, begin: int) -> int:
        """The index behind the newest record, `begin` being at most that. Looks past a record that was begun and
        not published, if others follow it."""
        end = self._run_end(begin)
        slots = (end + 1 + np.arange(layout.GUARD)) & (self._capacity - 1)
        return int(self._sequences.max()) if (self._sequences[slots] > end).any() else end

    def _run_end(self, begin: int) -> int:
        """The index behind the run of published records that begins at `begin`."""
        at = begin
        while at - begin < 2 * self._capacity:
            count = min(STEP, self._capacity - (at & (self._capacity - 1)))
            first = at & (self._capacity - 1)
            behind = self._sequences[first : first + count] <= np.arange(at, at + count, dtype=np.uint64)
            if behind.any():
                return at + int(behind.argmax())
            at += count
        return int(self._sequences.max())

    def _copy(self, begin: int, end: int) -> Raw:
        first, last = begin & (self._capacity - 1), ((end - 1) & (self._capacity - 1)) + 1
        if begin == end:
            return self._slots[:0]
        if first < last:
            return self._slots[first:last].copy()
        return np.concatenate((self._slots[first:], self._slots[:last]))

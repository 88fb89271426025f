"""Rows of requests that are not over, by leg: questions about legs are asked of each leg once, not of each row."""

from __future__ import annotations

import numpy as np

from kvscope.core.legs import PREFILL, by_attempt, roles
from kvscope.model.events import EVENT, picked, stacked


class Held:
    """Rows in the order they came. A leg's number holds until the next `add` or `keep`."""

    def __init__(self) -> None:
        self.rows = np.empty(0, EVENT)
        self.ids = np.empty(0, np.uint64)
        """(n,) what each row's engine, id and role come to"""
        self.again: set[int] = set()
        """hashes of legs of which several attempts are held: they are told apart only side by side"""
        self.leg = np.empty(0, np.int64)
        """(n,) number of each row's leg"""
        self.hash = np.empty(0, np.uint64)
        """(legs,) hash of each leg: its id, but for later attempts under one id; ascending"""

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, rows: np.ndarray, ids: np.ndarray) -> None:
        """Hold these too."""
        if not len(rows):
            return
        self.rows, self.ids = stacked((self.rows, rows)), np.concatenate((self.ids, ids))
        self._tell_legs()

    def keep(self, rows: np.ndarray) -> None:
        """Let go of the others; rows: (n,) bool."""
        self.rows, self.ids = picked(self.rows, rows), self.ids[rows]
        if self.again:
            self._tell_legs()
            return
        left = np.zeros(len(self.hash), bool)
        left[self.leg[rows]] = True
        self.leg = (np.cumsum(left) - 1)[self.leg[rows]]
        self.hash = self.hash[left]

    @property
    def attempted(self) -> np.ndarray:
        """(n,) bool: rows that bear a request's key of which several attempts are held."""
        if not self.again:
            return np.zeros(len(self), bool)
        request = self.rows["request"]
        return np.isin(request, request[np.isin(self.ids, np.array(list(self.again), np.uint64))])

    def of(self, hashes: np.ndarray) -> np.ndarray:
        """(n,) bool: rows of these legs."""
        return self.of_legs(np.isin(self.hash, hashes))

    def of_legs(self, chosen: np.ndarray) -> np.ndarray:
        """(n,) bool: rows of the legs chosen, (legs,) bool."""
        return np.asarray(chosen[self.leg])

    def with_prefill(self, chosen: np.ndarray) -> np.ndarray:
        """(n,) bool: rows of the legs chosen, (legs,) bool, and of prefill legs that name or are named by these."""
        rows, naming = self.of_legs(chosen), np.flatnonzero(self.rows["peer"])
        ours, theirs = naming[rows[naming]], naming[~rows[naming]]
        request, peer = self.rows["request"], self.rows["peer"]
        named = np.isin(request, np.unique(peer[ours]))
        named[theirs] |= np.isin(peer[theirs], request[ours])
        shared = self.legs_of(named & ~rows & (roles(self.rows) == PREFILL))
        return np.asarray(rows | self.of_legs(shared))

    def legs_of(self, rows: np.ndarray) -> np.ndarray:
        """(legs,) bool: legs of which some of these rows, (n,) bool or indices, are."""
        found = np.zeros(len(self.hash), bool)
        found[self.leg[rows]] = True
        return found

    def row_of_each(self, rows: np.ndarray) -> np.ndarray:
        """Index of one of these rows, (n,) bool, of each leg that they are of."""
        at = np.full(len(self.hash), -1)
        at[self.leg[rows]] = np.flatnonzero(rows)
        return at[at >= 0]

    def _tell_legs(self) -> None:
        hashes, again = by_attempt(self.rows, self.ids)
        self.again = {*again, *(hashed for later in again.values() for _, hashed in later)}
        self.hash, self.leg = np.unique(hashes, return_inverse=True)

"""Rows of requests that are not over, by leg: questions about legs are asked of each leg once, not of each row."""

from __future__ import annotations

import numpy as np

from kvscope.core.legs import PREFILL, by_attempt, roles, starts
from kvscope.model.events import EVENT, picked, stacked
from kvscope.model.membership import within

LEG = np.dtype([("hash", "u8"), ("request", "u8"), ("role", "u1"), ("begun", "?")])
"""Its id, but for later attempts under one id; the key of its request; whether the moment that begins it is held"""


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
        self.legs = np.empty(0, LEG)
        """(legs,) dtype LEG, ascending by hash"""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def hash(self) -> np.ndarray:
        """(legs,) ascending"""
        return np.asarray(self.legs["hash"])

    def add(self, rows: np.ndarray, ids: np.ndarray) -> None:
        """Hold these too."""
        if not len(rows):
            return
        self.rows, self.ids = stacked((self.rows, rows)), np.concatenate((self.ids, ids))
        begin = starts(rows)
        begun = np.concatenate((self.hash[self.legs["begun"]], ids[begin]))
        if self.again or len(begun) > len(np.unique(begun)):
            self._tell_legs()
        else:
            self._tell_more(rows, ids)

    def keep(self, rows: np.ndarray) -> None:
        """Let go of the others; rows: (n,) bool."""
        self.rows, self.ids = picked(self.rows, rows), self.ids[rows]
        if self.again:
            self._tell_legs()
            return
        left = np.zeros(len(self.legs), bool)
        left[self.leg[rows]] = True
        self.leg = (np.cumsum(left) - 1)[self.leg[rows]]
        self.legs = self.legs[left]

    @property
    def attempted(self) -> np.ndarray:
        """(n,) bool: rows that bear a request's key of which several attempts are held."""
        if not self.again:
            return np.zeros(len(self), bool)
        request = self.rows["request"]
        return within(request, request[within(self.ids, np.array(list(self.again), np.uint64))])

    def of(self, hashes: np.ndarray) -> np.ndarray:
        """(n,) bool: rows of these legs."""
        return self.of_legs(within(self.hash, hashes))

    def of_legs(self, chosen: np.ndarray) -> np.ndarray:
        """(n,) bool: rows of the legs chosen, (legs,) bool."""
        return np.asarray(chosen[self.leg])

    def with_prefill(self, chosen: np.ndarray) -> np.ndarray:
        """(n,) bool: rows of the legs chosen, (legs,) bool, and of prefill legs that name or are named by these."""
        naming = np.flatnonzero(self.rows["peer"])
        peer, leg = self.rows["peer"][naming], self.leg[naming]
        ours, request = chosen[leg], self.legs["request"]
        named = within(request, peer[ours])
        named[leg[~ours][within(peer[~ours], request[chosen])]] = True
        return self.of_legs(chosen | named & (self.legs["role"] == PREFILL))

    def legs_of(self, rows: np.ndarray) -> np.ndarray:
        """(legs,) bool: legs of which some of these rows, (n,) bool or indices, are."""
        found = np.zeros(len(self.legs), bool)
        found[self.leg[rows]] = True
        return found

    def row_of_each(self, rows: np.ndarray) -> np.ndarray:
        """Index of one of these rows, (n,) bool, of each leg that they are of."""
        at = np.full(len(self.legs), -1)
        at[self.leg[rows]] = np.flatnonzero(rows)
        return at[at >= 0]

    def _tell_legs(self) -> None:
        """All of them anew."""
        hashes, again = by_attempt(self.rows, self.ids)
        self.again = {*again, *(hashed for later in again.values() for _, hashed in later)}
        self.legs, self.leg = legs_among(self.rows, hashes)

    def _tell_more(self, rows: np.ndarray, ids: np.ndarray) -> None:
        """Those of further rows, which begin no leg a second time."""
        more, its = legs_among(rows, ids)
        known = within(more["hash"], self.hash)
        both = np.concatenate((self.legs, more[~known]))
        both = both[np.argsort(both["hash"], kind="stable")]
        where = np.searchsorted(both["hash"], more["hash"])
        both["begun"][where] |= more["begun"]
        self.leg = np.concatenate((np.searchsorted(both["hash"], self.hash)[self.leg], where[its]))
        self.legs = both


def legs_among(rows: np.ndarray, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """((legs,) dtype LEG, (n,) number of each row's leg) of rows whose legs hash so."""
    hashed, first, leg = np.unique(hashes, return_index=True, return_inverse=True)
    legs = np.zeros(len(hashed), LEG)
    legs["hash"], legs["request"], legs["role"] = hashed, rows["request"][first], roles(picked(rows, first))
    legs["begun"][leg[starts(rows)]] = True
    return legs, leg

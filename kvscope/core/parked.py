"""Rows of requests that answered and still run: nothing is asked of them until they end, however long that takes.

A request is parked with all its legs and woken with all of them: when its last leg has ended, when it is silent for
too long, or when something else names it (another child of its prompt, its id used again).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from kvscope.core.critical_path import Solution
from kvscope.core.departure import legs_of
from kvscope.core.legs import NONE, starts
from kvscope.core.shelf import Shelf
from kvscope.model.events import picked
from kvscope.probe.vocabulary import UNKNOWN


@dataclass
class Group:
    """The legs of one request, by id."""

    legs: tuple[int, ...]
    running: set[int]
    """those that have not ended"""
    deciding: int
    """its decode leg: while that runs, silence means nothing"""
    names: tuple[int, ...]
    """request keys by which a leg that comes may mean it"""
    touched: int
    """ns of stream time at which its latest row was stamped"""


class Parked:
    """By leg id; no leg and no name is of two groups."""

    def __init__(self) -> None:
        self._of_leg: dict[int, Group] = {}
        self._named: dict[int, Group] = {}
        self._ended: dict[int, Group] = {}
        self._shelf = Shelf()

    def __len__(self) -> int:
        """Rows."""
        return len(self._shelf)

    @property
    def groups(self) -> list[Group]:
        """All of them."""
        return list({group.deciding: group for group in self._of_leg.values()}.values())

    @property
    def rows(self) -> np.ndarray:
        """All rows (dtype EVENT): a copy."""
        return self._shelf.rows

    def accepted(self, groups: Iterable[Group]) -> list[Group]:
        """Those of which nothing belongs to a group that is parked already; their rows are to be put in."""
        taken: list[Group] = []
        for group in groups:
            if self._of_leg.keys().isdisjoint(group.legs) and self._named.keys().isdisjoint(group.names):
                self._of_leg |= dict.fromkeys(group.legs, group)
                self._named |= dict.fromkeys(group.names, group)
                taken.append(group)
        return taken

    def put(self, groups: Sequence[Group], rows: np.ndarray, ids: np.ndarray) -> None:
        """Rows of these groups; ids: (n,) leg id of each."""
        if not len(rows):
            return
        legs = np.array([leg for group in groups for leg in group.legs], np.uint64)
        owner = np.repeat(np.arange(len(groups)), [len(group.legs) for group in groups])
        order = np.argsort(legs)
        which = owner[order][np.searchsorted(legs[order], ids)]
        self._shelf.put([group.deciding for group in groups], which, rows, ids)

    def take(
        self, rows: np.ndarray, ids: np.ndarray, ends: np.ndarray, when: np.ndarray
    ) -> tuple[np.ndarray, list[Group]]:
        """Put by what came of parked legs: (n,) bool, which rows those are; and the groups that must be woken.

        ends: (n,) bool, rows that end their leg; when: (n,) ns of stream time at which each row was stamped
        """
        if not self._of_leg:
            return np.zeros(len(rows), bool), []
        unique, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
        owners = [self._of_leg.get(key) for key in unique.tolist()]
        taken = np.array([owner is not None for owner in owners], bool)[inverse]
        latest = np.full(len(unique), UNKNOWN)
        np.maximum.at(latest, inverse[taken], when[taken])
        touched: dict[int, Group] = {}
        for owner, at in zip(owners, latest.tolist(), strict=True):
            if owner is not None:
                touched[owner.deciding] = owner
                owner.touched = max(owner.touched, at)
        self.put(list(touched.values()), picked(rows, taken), ids[taken])
        for key in ids[taken & ends].tolist():
            group = self._of_leg[key]
            group.running.discard(key)
            if not group.running:
                self._ended[group.deciding] = group
        woken = [self._of_leg[key] for key in ids[taken & starts(rows)].tolist()]
        first = first[~taken[first]]
        named = np.concatenate((rows["request"][first], rows["peer"][~taken & (rows["peer"] != 0)]))
        woken += [self._named[key] for key in named.tolist() if key in self._named]
        return taken, list({group.deciding: group for group in woken}.values())

    def settled(self, now: int, settle_ns: int) -> list[Group]:
        """Groups all of whose legs ended, a while ago."""
        return [group for group in self._ended.values() if now - group.touched >= settle_ns]

    def overdue(self, now: int, quiet_ns: int, give_up_ns: int) -> list[Group]:
        """Groups that are silent for too long: for `quiet_ns` if their answer is complete, else for `give_up_ns`."""
        limits = ((group, give_up_ns if group.deciding in group.running else quiet_ns) for group in self.groups)
        return [group for group, limit in limits if now - group.touched >= limit]

    def wake(self, groups: Iterable[Group]) -> tuple[np.ndarray, np.ndarray]:
        """Let go of these groups: their rows, and (n,) the id of each row's leg."""
        groups = list(groups)
        for group in groups:
            self._ended.pop(group.deciding, None)
            for name in group.names:
                del self._named[name]
            for leg in group.legs:
                del self._of_leg[leg]
        return self._shelf.take(group.deciding for group in groups)


def groups_of(solution: Solution, chosen: np.ndarray, ended: np.ndarray, now: int) -> list[Group]:
    """What could be parked of these requests, (n,) bool: those of two legs that share none, and still run.

    ended: (events,) bool, rows of the solution's legs that end their leg
    """
    joined, legs = solution.joined, solution.legs
    over = np.zeros(len(legs.hash) + 1, bool)
    over[legs.leg[ended]] = True
    shared = np.bincount(joined.prefill + 1, minlength=len(legs.hash) + 1)[joined.prefill + 1] > 1
    two = (joined.prefill != NONE) & (joined.decode != NONE)
    rows = np.flatnonzero(chosen & two & ~shared & ~(over[joined.prefill] & over[joined.decode]))
    more = _names_beside(solution, rows)
    hashes, requests, ends = legs.hash.tolist(), legs.request.tolist(), over.tolist()
    groups = []
    for its in np.stack(legs_of(joined), axis=1)[rows].tolist():
        prefill, decode, *_ = its
        its = [leg for leg in its if leg != NONE]
        names = {requests[leg] for leg in its}.union(*(more[leg] for leg in its if leg in more))
        running = {hashes[leg] for leg in (prefill, decode) if not ends[leg]}
        groups.append(Group(tuple(hashes[leg] for leg in its), running, hashes[decode], tuple(names), now))
    return groups


def _names_beside(solution: Solution, rows: np.ndarray) -> dict[int, set[int]]:
    """leg -> the request keys that its moments name, where those are not its partner's."""
    joined, legs = solution.joined, solution.legs
    prefill, decode = joined.prefill[rows], joined.decode[rows]
    partner = np.zeros(len(legs.hash) + 1, np.uint64)
    partner[prefill], partner[decode] = legs.request[decode], legs.request[prefill]
    naming = np.flatnonzero(legs.rows["peer"])
    peer, leg_of = legs.rows["peer"][naming], legs.leg[naming]
    others = peer != partner[leg_of]
    found: dict[int, set[int]] = {}
    for leg, key in zip(leg_of[others].tolist(), peer[others].tolist(), strict=True):
        found.setdefault(leg, set()).add(key)
    return found

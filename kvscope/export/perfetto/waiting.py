"""Moments that wait for their request to be over: until then it is not known which of two engines are one request's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kvscope.core.legs import DECODE, PREFILL, REGISTRATION, ROUTER, leg_hash, roles
from kvscope.export.perfetto.flows import NO_REQUEST
from kvscope.export.pieces import LEGS, reaches
from kvscope.model.engines import Engines
from kvscope.model.events import EVENT, picked, stacked
from kvscope.model.graph import NODE
from kvscope.model.splits import Splits
from kvscope.probe.vocabulary import MOMENT_CODE, UNKNOWN

PATIENCE_NS = 700_000_000_000
"""What waits longer belongs to no request that is still to come: a silent one is given up before."""
_ROUTED = ("received", "prefill_sent", "prefill_returned", "decode_sent", "first_byte")
_MOST_TEXTS = 4096


@dataclass(frozen=True)
class Released:
    """Moments that wait no more."""

    rows: np.ndarray
    """(n,) EVENT"""
    number: np.ndarray
    """(n,) i8 which request each belongs to; NO_REQUEST: none that is known"""


class Waiting:
    """Moments of requests that are not over yet."""

    def __init__(self) -> None:
        self._rows = np.empty(0, EVENT)
        self._leg = np.empty(0, np.uint64)
        self._since = np.empty(0, np.int64)
        self._clock = 0
        self.texts: dict[int, str] = {}
        """What the moments name."""

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, rows: np.ndarray, engines: Engines, texts: Mapping[int, str]) -> None:
        """Take moments of requests (dtype EVENT)."""
        self._clock = max(self._clock, int(rows["t"].max(initial=self._clock)))
        self._rows = stacked((self._rows, rows))
        self._leg = np.concatenate((self._leg, _legs(rows, engines)))
        self._since = np.concatenate((self._since, np.full(len(rows), self._clock)))
        self.texts.update(texts)

    def release(self, splits: Splits, engine: np.ndarray, number: np.ndarray) -> Released:
        """The moments of requests that are over. engine: (engines of the splits,) their numbers here; number: (n,) that
        of each request."""
        legs, row, until = _legs_of(splits, engine)
        order = np.lexsort((until, legs))
        legs, row, until = legs[order], row[order], until[order]
        at = self._found(legs, until)
        mine = at >= 0
        return self._let_go(mine, number[row[at[mine]]])

    def overdue(self) -> Released:
        """Moments that no request came for."""
        old = self._clock - self._since > PATIENCE_NS
        return self._let_go(old, np.full(int(old.sum()), NO_REQUEST))

    def rest(self) -> Released:
        """All that is left."""
        return self._let_go(np.ones(len(self), bool), np.full(len(self), NO_REQUEST))

    def forget(self) -> None:
        """Drop texts that nothing here names any more."""
        if len(self.texts) > _MOST_TEXTS + 4 * len(self):
            named = {int(key) for column in ("request", "peer") for key in np.unique(self._rows[column]).tolist()}
            named |= {int(key) & 0xFFFF_FFFF_FFFF_FFFF for key in np.unique(self._rows["values"]).tolist()}
            self.texts = {key: text for key, text in self.texts.items() if key in named}

    def _found(self, legs: np.ndarray, until: np.ndarray) -> np.ndarray:
        """(waiting,) index into legs of each moment's, -1 where none is. An id may be used again: what came
        after a request's last moment is another's."""
        if not len(legs):
            return np.full(len(self), -1)
        at, t = np.minimum(np.searchsorted(legs, self._leg), len(legs) - 1), self._rows["t"]
        following = np.append(legs[1:] == legs[:-1], False)
        while (later := following[at] & (legs[at] == self._leg) & (t > until[at])).any():
            at[later] += 1
        return np.where((legs[at] == self._leg) & (t <= until[at]), at, -1)

    def _let_go(self, mine: np.ndarray, number: np.ndarray) -> Released:
        released = Released(picked(self._rows, mine), number)
        self._rows, self._leg, self._since = picked(self._rows, ~mine), self._leg[~mine], self._since[~mine]
        return released


def _legs(rows: np.ndarray, engines: Engines) -> np.ndarray:
    """(n,) u8 leg of each row. A router's moments are found again by what they are and when: its ids are its own."""
    role = roles(rows)
    routed = role == ROUTER
    where = np.where(routed, rows["moment"], engines.of_process[rows["process"]])
    what = np.where(routed, rows["t"].astype(np.uint64), rows["request"])
    return leg_hash(where, what, role)


def _legs_of(splits: Splits, engine: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(k,) legs of the requests, (k,) row of each, and (k,) the last time that one of its moments can have."""
    reach = reaches(splits)[:, :, 0] != UNKNOWN
    seen = dict(zip(LEGS, reach.T, strict=True))
    here = np.append(engine, -1)
    prefill, decode = here[splits.prefill_engine], here[splits.decode_engine]
    own = np.where(seen[DECODE], splits.peer_request, splits.request)
    found = [
        _leg(prefill, own, PREFILL, seen[PREFILL] & (own != 0)),
        _leg(decode, splits.request, DECODE, seen[DECODE]),
        _leg(prefill, own, REGISTRATION, own != 0),
        _leg(prefill, splits.request, REGISTRATION, seen[DECODE]),
    ]
    for moment in _ROUTED:
        t = splits.time[:, NODE[moment]]
        found.append(_leg(np.full(len(t), MOMENT_CODE[moment]), t.astype(np.uint64), ROUTER, t != UNKNOWN))
    legs, row = (np.concatenate(parts) for parts in zip(*found, strict=True))
    apart = splits.marked("unaligned")
    until = np.where(apart, np.iinfo(np.int64).max, splits.last_moment[:, 2])
    return legs, row, until[row]


def _leg(where: np.ndarray, what: np.ndarray, role: int, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    row = np.flatnonzero(seen & (where >= 0))
    return leg_hash(where[row], what[row], np.full(len(row), role, np.uint8)), row

"""The moments of each request side by side: one column of the graph's nodes per request."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kvscope.core.join import Joined
from kvscope.core.legs import NONE, Legs, value_column
from kvscope.core.ranks import Ranks
from kvscope.model.graph import ALL_NODES, NODE, ORIGIN
from kvscope.probe.layout import FLAG_CLOCK_STEP
from kvscope.probe.vocabulary import MOMENT_CODE, MOMENTS, STATE_CODE, UNKNOWN

# Of these the last counts: each is the end of something that may happen several times.
_LAST = tuple(MOMENT_CODE[name] for name in ("pending_seen", "notified", "noticed", "held", "finished", "released"))
_SCHEDULED, _READY = MOMENT_CODE["scheduled"], MOMENT_CODE["ready"]
_PUSH_ONLY = ("D.handed", "P.handed", "staged", "registration_sent", "registration_received", "matched", "notified")
_POSTING = tuple(MOMENT_CODE[name] for name in ("post_begun", "prepared", "posted", "pending_seen", "done_seen"))
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Moved:
    """What was done to moments of several hosts so that they compare."""

    shift: np.ndarray
    """(ALL_NODES, n) i8 ns added to what was stamped; 0 where the clock is taken as it is"""
    seat: np.ndarray
    """(ALL_NODES, n) i1 number of the clock within the request; -1: filled in"""


@dataclass(frozen=True)
class Columns:
    """n requests. Nodes are the graph's, by name."""

    legs: Legs
    joined: Joined
    at: np.ndarray
    """(ALL_NODES, n) row index of the event that counts, or NONE"""
    time: np.ndarray
    """(ALL_NODES, n) i8 ns, UNKNOWN where not seen; computed nodes filled in"""
    push: np.ndarray
    """(n,) bool: some moment that only a push has"""
    pull: np.ndarray
    """(n,) bool: the decode leg posted"""
    clock_step: np.ndarray
    """(n,) bool: an arrival lay after what follows it, and was taken back to there"""
    moved: Moved | None = None
    """None where every leg is on its own clock, as stamped"""

    def __len__(self) -> int:
        return len(self.push)

    def t(self, node: str) -> np.ndarray:
        """(n,) time of a node"""
        return np.asarray(self.time[NODE[node]])

    def has(self, *nodes: str) -> np.ndarray:
        """(n,) bool: any of the nodes was seen"""
        if len(nodes) == 1:
            return np.asarray(self.time[NODE[nodes[0]]] != UNKNOWN)
        return np.asarray((self.time[[NODE[node] for node in nodes]] != UNKNOWN).any(axis=0))

    def value(self, node: str, name: str) -> np.ndarray:
        """(n,) a value that the node's event carries, or UNKNOWN"""
        at = self.at[NODE[node]]
        column = self.legs.rows["values"][:, value_column(ALL_NODES[NODE[node]].moment, name)]
        return np.where(at == NONE, UNKNOWN, column[at])

    def instant(self, node: str, name: str) -> np.ndarray:
        """(n,) as `value`, of a value that is a time on the same clock as its event's."""
        value = self.value(node, name)
        return value if self.moved is None else np.where(value == UNKNOWN, value, value + self.moved.shift[NODE[node]])

    def shift(self, node: str) -> np.ndarray | int:
        """(n,) ns added to times of the node's leg"""
        return 0 if self.moved is None else np.asarray(self.moved.shift[NODE[node]])

    def field(self, node: str, name: str) -> np.ndarray:
        """(n,) a field of the node's event, 0 where there is none"""
        at = self.at[NODE[node]]
        column = self.legs.rows[name]
        nothing = column.dtype.type(0)
        return np.asarray(np.where(at == NONE, nothing, column[at]))


def gather_columns(legs: Legs, joined: Joined, ranks: Ranks) -> Columns:
    """Lay the moments of each request's legs into the graph's nodes."""
    first, last = _by_leg(legs, ranks.keep)
    _schedule_after_ready(legs, first)
    pull = (first[joined.decode][:, _POSTING] != NONE).any(axis=1)
    seats = {"prefill": joined.prefill, "decode": joined.decode, "router": joined.router}
    seats["poster"] = np.where(pull, joined.decode, joined.prefill)
    at = np.full((len(ALL_NODES), len(pull)), NONE)
    for index, node in enumerate(ALL_NODES):
        if node.moment:
            code = MOMENT_CODE[node.moment]
            seat = joined.registration if node.name == "registration_received" else seats[node.leg]
            at[index] = (last if code in _LAST else first)[seat, code]
    _registration_that_matched(legs, at, last[joined.registration, MOMENT_CODE["registration_received"]])
    time = np.where(at == NONE, UNKNOWN, np.ascontiguousarray(legs.rows["t"])[at])
    push = (time[[NODE[name] for name in _PUSH_ONLY]] != UNKNOWN).any(axis=0)
    steps = _mend_arrivals(legs, at, time)
    _compute(legs, at, time, joined.unaligned)
    return Columns(legs, joined, at, time, push, pull, steps)


def retimed(columns: Columns, joined: Joined, moved: Moved) -> Columns:
    """The same moments on clocks that compare."""
    legs, at = columns.legs, columns.at
    time = np.where(at == NONE, UNKNOWN, np.ascontiguousarray(legs.rows["t"])[at] + moved.shift)
    steps = _mend_arrivals(legs, at, time)
    _compute(legs, at, time, joined.unaligned)
    seat = moved.seat.copy()
    for node in ("D.arrived", "P.arrived", "received"):  # of several at once, the first in the graph's own order
        its = time[NODE[node]]
        seat[ORIGIN] = np.where((its != UNKNOWN) & (its == time[ORIGIN]), seat[NODE[node]], seat[ORIGIN])
    told = (time[NODE["notified"]] != UNKNOWN) & (time[NODE["notified"]] == time[NODE["transferred"]])
    seat[NODE["transferred"]] = np.where(told, seat[NODE["notified"]], seat[NODE["posted"]])
    seat[NODE["P.transferred"]] = seat[NODE["P.posted"]]
    return replace(columns, joined=joined, time=time, clock_step=steps, moved=replace(moved, seat=seat))


def _by_leg(legs: Legs, keep: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(legs + 1, moments) index of the first and the last event; the last row, which NONE points at, is empty."""
    kept = np.flatnonzero(keep)
    slot = legs.leg[kept] * len(MOMENTS) + legs.moment[kept]
    edge = np.flatnonzero(slot[1:] != slot[:-1]) + 1
    begins, ends = np.append(0, edge)[: len(kept)], np.append(edge, len(slot))[: len(kept)] - 1
    first = np.full((len(legs.hash) + 1, len(MOMENTS)), NONE)
    last = first.copy()
    first.reshape(-1)[slot[begins]] = kept[begins]
    last.reshape(-1)[slot[ends]] = kept[ends]
    return first, last


def _registration_that_matched(legs: Legs, at: np.ndarray, last: np.ndarray) -> None:
    """Of several registrations under one id, the one that prefill matched is the last before the match."""
    received, matched = NODE["registration_received"], NODE["matched"]
    t = legs.rows["t"]
    for row in np.flatnonzero((at[received] != last) & (at[matched] != NONE)).tolist():
        drained = np.arange(at[received, row], last[row] + 1)
        drained = drained[t[drained] <= t[at[matched, row]]]
        at[received, row] = drained[-1] if len(drained) else at[received, row]


def _schedule_after_ready(legs: Legs, first: np.ndarray) -> None:
    """Where a leg waited for a transfer, only what was scheduled after it is its start."""
    ready = first[:-1, _READY]
    waited = np.flatnonzero(ready != NONE)
    after = np.full(len(legs.hash), _NEVER)
    after[waited] = legs.rows["t"][ready[waited]]
    at = np.flatnonzero(legs.moment == _SCHEDULED)
    at = at[legs.rows["t"][at] >= after[legs.leg[at]]][::-1]  # the first of a leg is written last
    first[waited, _SCHEDULED] = NONE
    first[legs.leg[at], _SCHEDULED] = at


def _mend_arrivals(legs: Legs, at: np.ndarray, time: np.ndarray) -> np.ndarray:
    """Take an arrival that a clock step put after `taken` back to it; (n,) where that was so."""
    stepped = np.zeros(at.shape[1], bool)
    for side in ("P", "D"):
        arrived, taken = NODE[f"{side}.arrived"], NODE[f"{side}.taken"]
        known = (time[arrived] != UNKNOWN) & (time[taken] != UNKNOWN)
        late = known & (time[arrived] > time[taken])
        flagged = (np.append(legs.rows["flags"], np.uint16(0))[at[arrived]] & FLAG_CLOCK_STEP) != 0
        time[arrived] = np.where(late, time[taken], time[arrived])
        stepped |= late | (flagged & (at[arrived] != NONE))
    return stepped


def _compute(legs: Legs, at: np.ndarray, time: np.ndarray, unaligned: np.ndarray) -> None:
    """Fill in the nodes that nobody stamps: origin and the two ends of transfer."""
    # Which came first cannot be told where clocks do not compare.
    first = _earliest(time[[NODE[name] for name in ("received", "P.arrived", "D.arrived")]])
    time[ORIGIN] = np.where(unaligned, UNKNOWN, first)
    notified = np.where(unaligned, UNKNOWN, time[NODE["notified"]])
    state = np.append(legs.rows["state"], np.uint8(0))
    for prefix, done in (("", "done_seen"), ("P.", "P.done_seen")):
        posted, pending, transferred = (NODE[prefix + name] for name in ("posted", "pending_seen", "transferred"))
        told_done = np.where(state[at[posted]] == STATE_CODE["DONE"], time[posted], UNKNOWN)
        evidence = [told_done, time[NODE[done]]] + ([notified] if not prefix else [])
        time[transferred] = _earliest(np.stack(evidence))
        # A poll that found it in flight after all says only that its completion had not been processed.
        time[pending] = np.where(time[pending] > time[transferred], UNKNOWN, time[pending])


def _earliest(times: np.ndarray) -> np.ndarray:
    """(n,) the least of the known ones, UNKNOWN where none is."""
    least = np.where(times == UNKNOWN, _NEVER, times).min(axis=0)
    return np.where(least == _NEVER, UNKNOWN, least)

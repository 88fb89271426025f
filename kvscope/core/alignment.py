"""Requests between hosts, moved to one clock: each leg by one amount, so that what lies on it stays exact.

Two clocks never run at quite the same rate, so a leg that was stretched to fit the other's would no longer say how long
its own stages took. Each is moved as a whole, by what the offset was when it met the other: in a push once for the
registration and what led to it, once for the completion and what followed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from kvscope.core.between import Between
from kvscope.core.clocks import UNTOLD
from kvscope.core.columns import Columns, Moved, retimed
from kvscope.core.join import restale
from kvscope.core.legs import NONE
from kvscope.core.messages import Messages
from kvscope.core.offsets import DRIFT
from kvscope.model.clockpair import ClockPair
from kvscope.model.graph import ALL_NODES
from kvscope.probe.vocabulary import UNKNOWN

_P, _D, _R = 0, 1, 2
FRONT = ("D.arrived", "D.taken", "D.queued", "D.held", "D.reserved", "D.handed", "registration_sent")
_IS_FRONT = np.isin([node.name for node in ALL_NODES], FRONT)
_SEATS = {"prefill": _P, "decode": _D, "router": _R, "none": -1, "poster": -1}
_SEAT = np.array([_SEATS[node.leg] for node in ALL_NODES])
_POSTER = np.array([node.leg == "poster" for node in ALL_NODES])
_FAR = np.iinfo(np.int64).max // 2


@dataclass(frozen=True)
class Alignment:
    """n requests on the clocks that they can be told by."""

    columns: Columns
    bound: np.ndarray
    """(n,) i8 ns by which a time between two of its hosts may be wrong; 0 on one clock, UNKNOWN where not known"""
    violations: np.ndarray
    """(n,) causes that came after what they caused, by more than the bound"""
    behind: np.ndarray
    """(n,) ns that the clock which the request was moved to lies behind; UNKNOWN where it was not moved"""
    messages: Messages = field(default_factory=dict)
    """What the requests tell of the clocks"""
    clocks: tuple[ClockPair, ...] = ()
    reference: str = ""
    """The host whose clock requests were moved to"""


def as_stamped(columns: Columns) -> Alignment:
    """Nothing is moved."""
    n, unaligned = len(columns), columns.joined.unaligned
    bound = np.where(unaligned, UNKNOWN, 0) if unaligned.any() else np.zeros(n, np.int64)
    return Alignment(columns, bound, np.zeros(n, np.int64), np.full(n, UNKNOWN))


@dataclass
class _Meeting:
    """How far another seat's clock is ahead of the anchor's, where the two legs met; k requests."""

    low: np.ndarray
    high: np.ndarray
    known: np.ndarray
    t: np.ndarray
    """ns by the anchor's clock"""
    torn: np.ndarray
    """(k,) bool: the request's own moments contradict it"""
    middle: np.ndarray
    """(k,) what is taken"""

    def bound(self, *crossed: np.ndarray) -> np.ndarray:
        """(k,) ns; crossed: (k,) i8 instants by the anchor's clock at which something else went across."""
        wide = np.maximum(self.high - self.middle, self.middle - self.low)
        away = [np.where(each == UNKNOWN, 0, np.abs(each - self.t)) for each in crossed]
        return np.asarray(wide + np.ceil(np.maximum.reduce(away) * DRIFT).astype(np.int64))


class Aligner:
    """Aligns the columns of requests, by what is known between the hosts of its names."""

    def __init__(self, between: Between, names: list[str], reference: str, lag: np.ndarray, now: int) -> None:
        """names: hosts, by the numbers that legs have. lag: (hosts,) ns that each clock lies behind the one furthest
        ahead, which shows `now`."""
        self._between, self._names, self._lag, self._now = between, names, lag, now
        self._reference = reference
        self._reachable = between.reachable(reference)

    def align(self, columns: Columns) -> Alignment:
        """Move what can be moved."""
        n = len(columns)
        host = self._hosts(columns)
        bound = np.where(columns.joined.unaligned, UNKNOWN, 0)
        shift = np.zeros((4, n), np.int64)  # prefill, decode's front, decode's rest, router
        violations, solved = np.zeros(n, np.int64), ~columns.joined.unaligned
        rows = np.flatnonzero(columns.joined.unaligned & (host >= UNTOLD).all(axis=0))
        if len(rows):
            its_shift, its_bound, torn = self._between_legs(columns, rows, host[:, rows])
            good = its_bound != UNKNOWN
            shift[:, rows[good]], bound[rows[good]] = its_shift[:, good], its_bound[good]
            violations[rows], solved[rows[good]] = torn, True
        behind = self._to_reference(columns, host, solved, shift)
        aligned = solved & columns.joined.unaligned
        if not (aligned.any() or shift.any()):
            return Alignment(columns, bound, violations, behind)
        joined = replace(columns.joined, unaligned=columns.joined.unaligned & ~aligned)
        moved = retimed(columns, joined, Moved(_by_node(columns, shift), _seats(columns, host)))
        stale = aligned & (moved.t("D.finished") != UNKNOWN) & (moved.t("D.finished") < moved.t("matched"))
        if stale.any():
            moved = replace(moved, joined=restale(joined, columns.legs, joined.stale | stale))
        return Alignment(moved, bound, violations, behind)

    def _hosts(self, columns: Columns) -> np.ndarray:
        """(3, n) number of the host of each leg; UNTOLD where it is not told or there is none, less: several."""
        joined = columns.joined
        if columns.legs.hosts.max(initial=UNTOLD) == UNTOLD:  # not told apart: all on the first
            return np.zeros((3, len(columns)), np.int64)
        first, last = np.append(columns.legs.hosts, [[UNTOLD, UNTOLD]], axis=0).T
        one = np.where(first == last, first, UNTOLD - 1)
        prefill = np.where(joined.prefill == NONE, joined.registration, joined.prefill)
        return np.asarray(one[np.stack((prefill, joined.decode, joined.router))])

    def _at(self, here: np.ndarray, there: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(k,) as of `Between`; here, there: (k,) numbers of hosts. What is not told is where the other is."""
        low, high, known = (np.zeros(len(t), kind) for kind in (np.int64, np.int64, bool))
        known |= (here == there) | (here == UNTOLD) | (there == UNTOLD)
        key = np.where(known | (t == UNKNOWN), -1, here * len(self._names) + there)
        for pair in np.unique(key[key >= 0]).tolist():
            at = np.flatnonzero(key == pair)
            names = self._names[pair // len(self._names)], self._names[pair % len(self._names)]
            low[at], high[at], known[at] = self._between.at(*names, t[at])
        return low, high, known

    def _meet(
        self, hosts: tuple[np.ndarray, np.ndarray], t: np.ndarray, least: np.ndarray, most: np.ndarray
    ) -> _Meeting:
        """Of what the hosts' clocks allow at t, what the request itself allows as well: least, most, (k,)."""
        low, high, known = self._at(*hosts, t)
        own_low, own_high = np.maximum(low, least), np.minimum(high, most)
        same = (hosts[0] == hosts[1]) | (hosts[0] == UNTOLD) | (hosts[1] == UNTOLD)
        torn = known & ~same & (own_low > own_high)
        middle = np.where(torn | same, low, own_low) + np.where(torn | same, 0, (own_high - own_low) // 2)
        return _Meeting(low, high, known, t, torn, middle)

    def _between_legs(
        self, columns: Columns, rows: np.ndarray, host: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(4, k) shifts onto the clock of the prefill leg, or decode's where there is none; (k,) bound; (k,) torn."""
        t = {name: columns.t(name)[rows] for name in _TIMES}
        pull, push = columns.pull[rows], columns.push[rows] & ~columns.pull[rows]
        anchor = np.where(host[_P] == UNTOLD, host[_D], host[_P])
        started = _first_of(t, *_STARTS)
        knew = pull | (columns.field("D.queued", "peer")[rows] == _requests(columns, rows))
        received = np.where(t["received"] == UNKNOWN, UNTOLD, host[_R])
        beside = (received == host[_D]) & (received != UNTOLD)  # a router on decode's host goes with decode
        asked = _less(t["received"], t["P.arrived"], -_FAR)
        # Decode's front: no earlier than the registration was received, no later than what it waited for.
        front = self._meet(
            (anchor, host[_D]),
            np.where(push & (t["registration_received"] != UNKNOWN), t["registration_received"], _computed(t, started)),
            np.maximum(
                _less(t["registration_sent"], t["registration_received"], -_FAR), np.where(beside, asked, -_FAR)
            ),
            np.where(knew, _less(t["D.arrived"], t["P.computed"], _FAR), _FAR),
        )
        posted, noticed = np.maximum(t["prepared"], t["pending_seen"]), _first_of(t, "notified", "noticed")
        back = self._meet(
            (anchor, host[_D]),
            np.where(posted == UNKNOWN, front.t, posted),
            np.full(len(rows), -_FAR),
            _less(noticed, posted, _FAR),
        )
        two = push & (posted != UNKNOWN)
        router = self._meet((anchor, np.where(beside, UNTOLD, received)), started, asked, np.full(len(rows), _FAR))
        crossed = np.where(knew, t["P.computed"], started)
        bound = np.maximum(front.bound(crossed), np.where(two, back.bound(t["posted"]), 0))
        bound = np.maximum(bound, router.bound(started))
        known = front.known & (back.known | ~two) & router.known
        torn = known & (front.torn | (back.torn & two) | router.torn)
        rest = np.where(two, back.middle, front.middle)
        routed = np.where(beside, front.middle, router.middle)
        shift = np.stack((np.zeros(len(rows), np.int64), -front.middle, -rest, -routed))
        return shift, np.where(known & ~torn, bound, UNKNOWN), torn.astype(np.int64)

    def _to_reference(self, columns: Columns, host: np.ndarray, solved: np.ndarray, shift: np.ndarray) -> np.ndarray:
        """Move the requests solved (in place) from the clock of their anchor to the reference's; (n,) as `behind`."""
        behind = np.full(len(columns), UNKNOWN)
        anchor = np.where(host[_P] < 0, host[_D], host[_P])
        rows = np.flatnonzero(solved & (anchor >= 0))
        started = _first_of({name: columns.t(name)[rows] for name in _STARTS}, *_STARTS)
        to = np.full(len(rows), self._names.index(self._reference))
        low, high, known = self._at(anchor[rows], to, started)
        known &= (started != UNKNOWN) | (anchor[rows] == to)
        middle = low + (high - low) // 2
        shift[:, rows[known]] += middle[known]
        behind[rows[known]] = self._behind()
        mine = rows[~known & columns.joined.unaligned[rows]]
        behind[mine] = self._lag[anchor[mine]]
        return behind

    def _behind(self) -> int:
        """ns that the reference lies behind: by the clock on it that has come furthest."""
        found = []
        for name in sorted(self._reachable & set(self._names)):
            lag = int(self._lag[self._names.index(name)])
            low, high, known = self._between.at(name, self._reference, np.array([self._now - lag]))
            if known[0]:
                found.append(lag - int(low[0] + (high[0] - low[0]) // 2))
        return min(found)


_STARTS = (
    *("P.arrived", "P.taken", "P.queued", "P.computed", "registration_received"),
    *("D.arrived", "D.taken", "D.queued", "received"),
)
_TIMES = (*_STARTS, "registration_sent", "matched", "prepared", "posted", "pending_seen", "notified", "noticed")


def _first_of(t: dict[str, np.ndarray], *names: str) -> np.ndarray:
    """(k,) the first of these that is known"""
    found = t[names[0]]
    for name in names[1:]:
        found = np.where(found == UNKNOWN, t[name], found)
    return found


def _computed(t: dict[str, np.ndarray], started: np.ndarray) -> np.ndarray:
    return np.where(t["P.computed"] == UNKNOWN, started, t["P.computed"])


def _less(there: np.ndarray, here: np.ndarray, otherwise: int) -> np.ndarray:
    """(k,) there - here, where both are known"""
    known = (there != UNKNOWN) & (here != UNKNOWN)
    return np.where(known, there - np.where(known, here, 0), otherwise)


def _requests(columns: Columns, rows: np.ndarray) -> np.ndarray:
    """(k,) u8 key of the prefill leg; never 0, which nothing is given as"""
    requests = np.append(columns.legs.request, np.uint64(0))[columns.joined.prefill[rows]]
    return np.where(requests == 0, np.uint64(1), requests)


def _seats(columns: Columns, host: np.ndarray) -> np.ndarray:
    """(ALL_NODES, n) i1 which clock stamped each: prefill's 0, decode's 1, the router's 2; alike on one host."""
    seat = np.repeat(_SEAT[:, None], len(columns), axis=1)
    seat[_POSTER] = np.where(columns.pull, _D, _P)
    same = np.where((host[_D] == host[_P]) | (host[_D] == UNTOLD) | (host[_P] == UNTOLD), _P, _D)
    router = np.where((host[_R] == host[_P]) | (host[_R] == UNTOLD), _P, np.where(host[_R] == host[_D], same, _R))
    mapped = np.stack((np.full(len(columns), _P), same, router, np.full(len(columns), -1)))
    return np.take_along_axis(mapped, seat, axis=0).astype(np.int8)


def _by_node(columns: Columns, shift: np.ndarray) -> np.ndarray:
    """(ALL_NODES, n) what is added to each node's stamp; shift: (4, n) of prefill, decode's front, its rest, router."""
    row = np.select([_SEAT == _P, _SEAT == _R, _IS_FRONT], [0, 3, 1], 2)
    found = shift[row]
    found[_POSTER] = np.where(columns.pull, shift[2], shift[0])
    return np.asarray(found)

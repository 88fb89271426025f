"""What each part of a request would take: measured where the recording has it, bounded by something measured else.

One function for each part. A part that the other mode has as well is taken from the request itself. What only the other
mode has is bounded by what bounds it in an engine: a thread that waits for the forward thread waits for one step.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kvscope.model.graph import NODE
from kvscope.model.splits import Splits
from kvscope.probe.vocabulary import UNKNOWN
from kvscope.whatif.mode import Mode

IDLE_NS = 2_000_000
"""An engine without work sleeps 1 ms between two of its steps; what waits for a step then waits for two at most."""
MEASURED = "measured"


@dataclass(frozen=True)
class Cost:
    """What a part takes in each request, ns."""

    name: str
    low: np.ndarray
    """(n,)"""
    high: np.ndarray
    source: str
    """MEASURED, or by what it is bounded and why"""

    @property
    def measured(self) -> bool:
        """Whether it is known to the nanosecond."""
        return self.source == MEASURED


@dataclass(frozen=True)
class Seen:
    """n requests of one mode, each with a TTFT."""

    splits: Splits
    mode: Mode
    hold_ns: int
    """What the router is assumed to wait between the legs where it did not have to"""
    next_step: np.ndarray
    """(n,) ns from the end of its prefill to the end of the step that followed at once; 0 where prefill was idle,
    UNKNOWN where no step was recorded"""

    def t(self, node: str) -> np.ndarray:
        """(n,) ns"""
        times: np.ndarray = self.splits.time[:, NODE[node]]
        return times

    def between(self, begin: str, end: str) -> np.ndarray:
        """(n,) ns, 0 at least; of moments that every request of the mode has"""
        return np.asarray(np.maximum(self.t(end) - self.t(begin), 0))

    def known(self, *nodes: str) -> np.ndarray:
        """(n,) bool: all were seen"""
        return np.asarray((self.splits.time[:, [NODE[node] for node in nodes]] != UNKNOWN).all(axis=1))

    @cached_property
    def decode_step(self) -> np.ndarray:
        """(n,) ns a step of decode takes: the one that gave the first token"""
        return self.between("D.scheduled", "first_token")

    @cached_property
    def prefill_step(self) -> np.ndarray:
        """(n,) ns what waits for prefill's next step waits at most"""
        own = self.between("P.scheduled", "P.computed")
        return np.maximum(np.where(self.next_step == UNKNOWN, own, self.next_step), IDLE_NS)

    @cached_property
    def in_flight(self) -> np.ndarray:
        """(n,) ns for which the transfer was seen in flight"""
        return np.where(self.known("pending_seen", "posted"), self.between("posted", "pending_seen"), 0)


def costs_of(seen: Seen, to: Mode) -> dict[str, Cost]:
    """name -> what it would take under `to`"""
    names = ["prefill", "dispatch", "front", *(PUSHED if to.push else ("read",)), "rest"]
    return {name: _COSTS[name](seen, to) for name in names}


def _measured(name: str, ns: np.ndarray) -> Cost:
    return Cost(name, ns, ns, MEASURED)


def _prefill(seen: Seen, _: Mode) -> Cost:
    """From the origin to the end of prefill."""
    return _measured("prefill", np.maximum(seen.t("P.computed") - seen.splits.origin, 0))


def _dispatch(seen: Seen, to: Mode) -> Cost:
    """Until decode's API server has it: from the origin if early, else from the end of prefill."""
    since_origin = np.maximum(seen.t("D.arrived") - seen.splits.origin, 0)
    if to.early and seen.mode.early:
        return _measured("dispatch", since_origin)
    if to.early:
        return _early_dispatch(seen)
    if not seen.mode.early:
        return _measured("dispatch", seen.between("P.computed", "D.arrived"))
    replied = seen.known("prefill_returned") & (seen.t("prefill_returned") >= seen.t("P.computed"))
    reply = np.where(replied, seen.t("prefill_returned") - seen.t("P.computed"), 0)
    high = np.where(replied, reply + since_origin, 2 * since_origin)
    source = "prefill's answer, what the router holds, and at most what calling decode took"
    return Cost("dispatch", reply + seen.hold_ns, high + seen.hold_ns, source)


def _early_dispatch(seen: Seen) -> Cost:
    """As the prefill leg is sent, or the decode leg was."""
    sent = np.maximum(seen.t("P.arrived") - seen.splits.origin, 0)
    hop = seen.splits.dispatch_parts[:, 2]
    told = hop != UNKNOWN
    after = seen.between("P.computed", "D.arrived")
    low = np.where(told, np.minimum(hop, sent), 0)
    high = np.where(told, hop + sent, np.maximum(after, sent))
    return Cost("dispatch", low, high, "between what sending either leg took and both")


def _front(seen: Seen, _: Mode) -> Cost:
    """At decode, until its blocks are reserved."""
    return _measured("front", seen.between("D.arrived", "D.reserved"))


def _registration(seen: Seen, _: Mode) -> Cost:
    """From the reserved blocks to the registration that is sent."""
    if seen.mode.push:
        return _measured("registration", seen.between("D.reserved", "registration_sent"))
    handoff = seen.between("D.reserved", "post_begun")
    return Cost(
        "registration", handoff, handoff + seen.decode_step, "handed over as the read was, to a step of decode more"
    )


def _flight(seen: Seen, to: Mode) -> Cost:
    """Until prefill's writer has the registration, if it looks for one."""
    if seen.mode.push and (to.early or not seen.mode.early):
        return _measured("flight", seen.between("registration_sent", "registration_received"))
    high = seen.prefill_step
    if seen.mode.push:  # early: it lay there until the writer looked
        high = np.minimum(high, seen.between("registration_sent", "registration_received"))
    return Cost("flight", np.zeros_like(high), high, "at most the step of prefill that follows")


def _staging(seen: Seen, _: Mode) -> Cost:
    """From the end of prefill until its writer has the blocks."""
    if seen.mode.push:
        return _measured("staging", seen.between("P.computed", "staged"))
    high = seen.prefill_step
    return Cost("staging", np.zeros_like(high), high, "at most the step of prefill that follows")


def _match(seen: Seen, _: Mode) -> Cost:
    """Once both halves are there."""
    if seen.mode.push:
        there = np.maximum(seen.t("staged"), seen.t("registration_received"))
        return _measured("match", np.maximum(seen.t("matched") - there, 0))
    nothing = np.zeros(len(seen.splits), np.int64)
    return Cost("match", nothing, nothing, "nothing: a look into a table")


def _write(seen: Seen, _: Mode) -> Cost:
    """From the match until decode's forward thread takes the blocks into account."""
    if seen.mode.push:
        return _measured("write", seen.between("matched", "noticed"))
    post = seen.between("post_begun", "posted")
    least = post + seen.in_flight
    most = post + seen.between("posted", "noticed") + seen.decode_step
    return Cost("write", least, most, "posted as the read; seen in flight, to noticed and a step of decode more")


def _read(seen: Seen, _: Mode) -> Cost:
    """From the reserved blocks until decode's forward thread takes them into account."""
    if not seen.mode.push:
        return _measured("read", seen.between("D.reserved", "noticed"))
    handoff, post = seen.between("D.reserved", "D.handed"), seen.between("matched", "posted")
    least = handoff + post + seen.in_flight
    most = handoff + post + seen.between("posted", "noticed") + seen.decode_step
    return Cost("read", least, most, "handed over as the registration, posted as the write; in flight, to a step more")


def _rest(seen: Seen, _: Mode) -> Cost:
    """From there to the first token."""
    return _measured("rest", seen.between("noticed", "first_token"))


PUSHED = ("registration", "flight", "staging", "match", "write")
_COSTS = {
    "prefill": _prefill,
    "dispatch": _dispatch,
    "front": _front,
    "registration": _registration,
    "flight": _flight,
    "staging": _staging,
    "match": _match,
    "write": _write,
    "read": _read,
    "rest": _rest,
}
MEANINGS = {
    "prefill": "until prefill has computed the prompt",
    "dispatch": "until decode's API server has the request",
    "front": "at decode, until blocks are reserved",
    "registration": "until decode's registration is sent",
    "flight": "until prefill's writer has it",
    "staging": "until prefill's writer has the blocks",
    "match": "until the two halves are paired",
    "write": "from there until decode noticed the blocks",
    "read": "from the reserved blocks until decode noticed them",
    "rest": "from there to the first token",
}

"""The clocks of several hosts: how far each is ahead of each, directly or by way of a third."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kvscope.core.messages import Messages, Pair
from kvscope.core.offsets import Offset, estimate, turned
from kvscope.model.clockpair import ClockPair

Known = tuple[np.ndarray, np.ndarray, np.ndarray]
"""(k,) i8 low and high ns, (k,) bool where they are known"""


class Between:
    """Made of messages; a host is known by its name."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._offsets: dict[Pair, Offset] = {}
        self._near: dict[str, set[str]] = {}
        for one, other in messages:
            self._near.setdefault(one, set()).add(other)
            self._near.setdefault(other, set()).add(one)

    def at(self, here: str, there: str, t: np.ndarray) -> Known:
        """What to add to t, (k,) ns by the clock here, to get the clock there."""
        if here == there:
            return np.zeros(len(t), np.int64), np.zeros(len(t), np.int64), np.ones(len(t), bool)
        found = [self._direct(here, there, t)] if there in self._near.get(here, ()) else []
        for other in sorted(self._near.get(here, set()) & self._near.get(there, set())):
            found.append(self._by_way_of(here, other, there, t))
        return _narrowed(found, len(t))

    def reachable(self, here: str) -> set[str]:
        """Hosts that messages lead to, in any number of hops; itself too."""
        found, ahead = {here}, [here]
        while ahead:
            new = self._near.get(ahead.pop(), set()) - found
            found |= new
            ahead += sorted(new)
        return found

    def pairs(self) -> tuple[ClockPair, ...]:
        """What is known of each two hosts between which messages went."""
        return tuple(self._told(*pair) for pair in self._messages)

    def _offset(self, here: str, there: str) -> Offset:
        if (here, there) not in self._offsets:
            straight = (here, there) in self._messages
            its = self._messages[(here, there) if straight else (there, here)]
            self._offsets[here, there] = estimate(its if straight else turned(its))
        return self._offsets[here, there]

    def _direct(self, here: str, there: str, t: np.ndarray) -> Known:
        return self._offset(here, there).at(t)

    def _by_way_of(self, here: str, other: str, there: str, t: np.ndarray) -> Known:
        low, high, known = self._direct(here, other, t)
        middle = low + (high - low) // 2
        lower, higher, as_well = self._direct(other, there, t + middle)
        # That instant is known to within the first bound, in which the second clock may have drifted.
        drifted = ((high - low) * self._offset(other, there).drift).astype(np.int64) + 1
        return low + lower - drifted, high + higher + drifted, known & as_well

    def _told(self, here: str, there: str) -> ClockPair:
        found = self._offset(here, there)
        t = np.sort(self._messages[here, there]["here"])[::-1]
        if found.fullest is not None:
            t = t[(t - found.epoch >= found.fullest.begin) & (t - found.epoch <= found.fullest.end)]
        low, high, known = found.at(t[: len(t) // 4 + 1])
        at = np.flatnonzero(known)
        last = at[np.argmin((high - low)[at])] if len(at) else None
        return ClockPair(
            here=here,
            there=there,
            sent=found.sent,
            received=found.received,
            offset_ns=None if last is None else int(low[last] + (high[last] - low[last]) // 2),
            bound_ns=None if last is None else int((high[last] - low[last] + 1) // 2),
            drift=found.rate,
            steps=found.steps,
            doubtful_ns=found.doubtful_ns,
        )


def _narrowed(found: Iterable[Known], n: int) -> Known:
    """What all of them allow; where they contradict each other, nothing."""
    low, high, known = np.full(n, -(2**62)), np.full(n, 2**62), np.zeros(n, bool)
    for lower, higher, told in found:
        low, high = np.where(told, np.maximum(low, lower), low), np.where(told, np.minimum(high, higher), high)
        known |= told
    known &= low <= high
    return np.where(known, low, 0), np.where(known, high, 0), known

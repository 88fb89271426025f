"""How far one host's clock is ahead of another's: bounds from messages, each of which is one inequality.

A message was not received before it was sent. So one that went from here to there bounds from above what has to be
added to the sender's clock, and one that came back bounds it from below. Both clocks run at nearly the same rate, so
that what bounds the offset at one instant bounds it, a little wider, at another. Nothing is averaged: delay that is
uneven or comes in bursts makes bounds wide, never wrong. A clock that was stopped or set contradicts what was known.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

MESSAGE = np.dtype([("here", "i8"), ("there", "i8"), ("back", "?")])
"""One message between two hosts: an instant on each one's clock, ns. `back`: it came from there, so that `here` is when
it was received; else `here` is when it was sent."""

DRIFT = 200e-6
"""How much faster one clock may run than the other: two crystals of 100 ppm each. Discipline by NTP stays within."""
REACH_NS = 60_000_000_000
"""A message says nothing of instants further away: in between a clock could have stopped, and nobody would know."""
_ROUNDING = 1.0  # ns: what floats may be off by
_BLOCK = 4096


@dataclass(frozen=True)
class Stretch:
    """A time in which nothing contradicts that the two clocks run on. Instants are relative to `Offset.epoch`."""

    begin: float
    end: float
    """What is certain to lie in it: from its first message to its last, and beyond where no step is near"""
    upper: np.ndarray
    """(n, 2) instant, bound from above; by instant"""
    lower: np.ndarray
    """(m, 2) likewise from below"""

    def at(self, t: np.ndarray, drift: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(k,) low, high; (k,) whether messages both ways lie within reach of t, (k,)."""
        high, above = _least(self.upper, t, drift)
        low, below = _least(self.lower * (1, -1), t, drift)
        return -low, high, np.maximum(above, below) <= REACH_NS


@dataclass(frozen=True)
class Offset:
    """What to add to the clock here to get the clock there, as a function of the clock here."""

    epoch: int
    """ns by the clock here: instants of stretches count from it"""
    base: int
    """ns: their offsets count from it"""
    stretches: tuple[Stretch, ...]
    drift: float
    steps: int
    """How often a clock was stopped or set, at least"""
    doubtful_ns: int
    """In all, where a step lies and nobody can tell on which side an instant is"""
    sent: int
    """Messages from here to there"""
    received: int
    """Messages from there to here"""

    def at(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(k,) i8 low and high ns, (k,) bool where they are known; t: (k,) i8 ns by the clock here."""
        low, high, known = (np.zeros(len(t), kind) for kind in (np.int64, np.int64, bool))
        since = (t - self.epoch).astype(np.float64)
        for stretch in self.stretches:
            own = np.flatnonzero((since >= stretch.begin) & (since <= stretch.end))
            least, most, near = stretch.at(since[own], self.drift)
            own, least, most = own[near], least[near], most[near]
            low[own] = np.floor(least - _ROUNDING).astype(np.int64) + self.base
            high[own] = np.ceil(most + _ROUNDING).astype(np.int64) + self.base
            known[own] = True
        return low, high, known

    @property
    def fullest(self) -> Stretch | None:
        """The stretch of most messages."""
        return max(self.stretches, key=lambda stretch: len(stretch.upper) + len(stretch.lower), default=None)

    @property
    def rate(self) -> tuple[float, float] | None:
        """By how much the clock there runs faster, on average over the stretch of most messages: low and high."""
        found = self.fullest
        if found is None or not (len(found.upper) and len(found.lower)):
            return None
        t = np.unique(np.concatenate((found.upper[:, 0], found.lower[:, 0])))
        low, high, _ = found.at(t, self.drift)
        early = np.flatnonzero(t <= t[0] + (t[-1] - t[0]) / 3)
        late = np.flatnonzero(t >= t[-1] - (t[-1] - t[0]) / 3)
        one, other = early[(high - low)[early].argmin()], late[(high - low)[late].argmin()]
        if one == other:
            return -self.drift, self.drift
        span = t[other] - t[one]
        least, most = (low[other] - high[one]) / span, (high[other] - low[one]) / span
        return max(float(least), -self.drift), min(float(most), self.drift)


def estimate(messages: np.ndarray, drift: float = DRIFT) -> Offset:
    """Bounds from messages (dtype MESSAGE), in any order. drift: how much faster one clock may run than the other."""
    messages = np.unique(messages)
    base = _base(messages)
    t, v = _relative(messages, base)
    back = messages["back"]
    starts, ends = _edges(t, v, back, drift)
    stretches, certain = [], 0.0
    for start, end in zip(starts, ends, strict=True):
        if start <= end:
            begin = -np.inf if start == 0 else float(t[start])
            until = np.inf if end == len(t) - 1 else float(t[end])
            points, its = np.stack((t, v), axis=1)[start : end + 1], back[start : end + 1]
            stretches.append(Stretch(begin, until, points[~its], points[its]))
            certain += float(t[end] - t[start])
    return Offset(
        epoch=int(messages["here"][0]) if len(messages) else 0,
        base=base,
        stretches=tuple(stretches),
        drift=drift,
        steps=max(0, len(starts) - 1),
        doubtful_ns=int(t[-1] - certain) if len(t) else 0,
        sent=int((~back).sum()),
        received=int(back.sum()),
    )


def turned(messages: np.ndarray) -> np.ndarray:
    """The same messages (dtype MESSAGE) as seen from the other host."""
    found = np.empty(len(messages), MESSAGE)
    found["here"], found["there"], found["back"] = messages["there"], messages["here"], ~messages["back"]
    return found


def telling(messages: np.ndarray, drift: float = DRIFT) -> np.ndarray:
    """Those of the messages (dtype MESSAGE) without which less would be known: mostly few."""
    messages = np.sort(messages, order=["here", "back", "there"])
    t, v = _relative(messages, _base(messages))
    keep = np.zeros(len(messages), bool)
    starts, ends = _edges(t, v, messages["back"], drift)
    for start, end in pairwise(sorted({0, *starts, *(end + 1 for end in ends), len(t)})):
        for way, sign in ((False, 1), (True, -1)):
            at = start + np.flatnonzero(messages["back"][start:end] == way)
            if len(at):
                points = np.stack((t[at], sign * v[at]), axis=1)
                keep[at[points[:, 1] <= _least(points, points[:, 0], drift)[0] + _ROUNDING / 4]] = True
                keep[at[[0, -1]]] = True
    return np.asarray(messages[keep])


def _base(messages: np.ndarray) -> int:
    return int(np.median(messages["there"] - messages["here"])) if len(messages) else 0


def _relative(messages: np.ndarray, base: int) -> tuple[np.ndarray, np.ndarray]:
    """(n,) f8 instants since the first, (n,) f8 offsets less base: small enough for floats to be good to the ns."""
    here = messages["here"]
    return (here - here[:1]).astype(np.float64), (messages["there"] - here - base).astype(np.float64)


def _edges(t: np.ndarray, v: np.ndarray, back: np.ndarray, drift: float) -> tuple[list[int], list[int]]:
    """The first and the last message that are certain to lie in each stretch; where none is, the wrong way round.

    Stretches are as few as can be. Going forward each is as long as can be, so that its step lies no later than there;
    going backward likewise, so that it lies no earlier.
    """
    starts = _starts(t, v, ~back, drift)
    ends = [len(t) - 1 - start for start in _starts(-t[::-1], v[::-1], ~back[::-1], drift)][::-1]
    return (starts, ends) if len(starts) == len(ends) else ([], [])


def _least(points: np.ndarray, t: np.ndarray, drift: float) -> tuple[np.ndarray, np.ndarray]:
    """(k,) the least that points (n, 2; by instant) allow at t, (k,); and (k,) how far the nearest of them is."""
    if not len(points):
        return np.full(len(t), np.inf), np.full(len(t), np.inf)
    at, value = points[:, 0], points[:, 1]
    before = np.append(np.inf, np.minimum.accumulate(value - drift * at))
    after = np.append(np.minimum.accumulate((value + drift * at)[::-1])[::-1], np.inf)
    place = np.searchsorted(at, t, "right")
    edges = np.concatenate(([-np.inf], at, [np.inf]))
    nearest = np.minimum(t - edges[place], edges[place + 1] - t)
    return np.minimum(before[place] + drift * t, after[place] - drift * t), nearest


def _starts(t: np.ndarray, v: np.ndarray, upper: np.ndarray, drift: float) -> list[int]:
    """Where each stretch starts, if each goes on until a message contradicts it; t ascending."""
    starts, at, size = [0] if len(t) else [], 0, _BLOCK
    while at < len(t):
        end = at + size
        conflict = _conflict(t[at:end], v[at:end], upper[at:end], drift)
        if conflict is None:
            if end >= len(t):
                break
            size *= 4
            continue
        at, size = at + conflict, _BLOCK
        starts.append(at)
    return starts


def _conflict(t: np.ndarray, v: np.ndarray, upper: np.ndarray, drift: float) -> int | None:
    """The first message that contradicts those before it."""
    high = np.minimum.accumulate(np.where(upper, v - drift * t, np.inf)) + drift * t
    low = np.maximum.accumulate(np.where(upper, -np.inf, v + drift * t)) - drift * t
    torn = high < low - _ROUNDING
    first = int(torn.argmax()) if len(torn) else 0
    return first if len(torn) and torn[first] else None

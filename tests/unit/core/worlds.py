"""Two hosts whose clocks drift, stop and differ by hours, and messages between them: what is true is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvscope.core.offsets import MESSAGE

MS, SECOND, HOUR = 1_000_000, 1_000_000_000, 3600 * 1_000_000_000


@dataclass(frozen=True)
class Clock:
    """CLOCK_MONOTONIC as a function of true time: it runs at its rate, and stands still while the host is suspended."""

    begin: int
    rate: float
    stops: tuple[tuple[int, int], ...] = ()
    """(when, for how long), ns of true time"""

    def at(self, true: np.ndarray) -> np.ndarray:
        """(n,) i8"""
        awake = true.astype(np.float64)
        for when, ns in self.stops:
            awake = awake - np.clip(true - when, 0, ns)
        return self.begin + np.round(awake * (1 + self.rate)).astype(np.int64)

    def asleep(self, true: np.ndarray) -> np.ndarray:
        """(n,) bool"""
        return np.asarray(
            np.any([(true >= when) & (true < when + ns) for when, ns in self.stops] or [true < 0], axis=0)
        )

    def woken(self, true: np.ndarray) -> np.ndarray:
        """(n,) when what comes at `true` is seen"""
        for when, ns in self.stops:
            true = np.where((true >= when) & (true < when + ns), when + ns, true)
        return true


@dataclass(frozen=True)
class World:
    """Messages (dtype MESSAGE) between `here` and `there` over `length` ns."""

    here: Clock
    there: Clock
    length: int
    messages: np.ndarray
    least: tuple[int, int]
    """ns that a message takes at least, there and back"""

    def truth(self, true: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(n,) the clock here, (n,) what has to be added to it to get the one there."""
        here = self.here.at(true)
        return here, self.there.at(true) - here


def delays(rng: np.random.Generator, least: int, true: np.ndarray) -> np.ndarray:
    """(n,) ns: a heavy tail above the least, and bursts in which everything is late."""
    found = least + rng.pareto(1.2, len(true)) * rng.uniform(0.02, 1) * least
    for begin in rng.uniform(0, true.max(initial=1), rng.integers(0, 4)):
        late = (true >= begin) & (true < begin + rng.uniform(1, 20) * SECOND)
        found = found + late * rng.uniform(1, 50) * MS
    return np.minimum(found, 30 * SECOND).astype(np.int64)


def world(seed: int, stops: int = 0, smallest: int = SECOND) -> World:
    """A few minutes. stops: how often a host is suspended, for `smallest` ns at least."""
    rng = np.random.default_rng(seed)
    length = int(rng.uniform(60, 400) * SECOND)
    rates = rng.uniform(-50e-6, 50e-6, 2)
    cut: tuple[list[tuple[int, int]], ...] = ([], [])
    for when in np.sort(rng.uniform(0.1, 0.9, stops) * length).tolist():
        ns = int(np.exp(rng.uniform(np.log(smallest), np.log(10 * HOUR))))
        cut[int(rng.integers(2))].append((int(when) + sum(ns for host in cut for _, ns in host), ns))
    begins = rng.integers(0, 400 * 24 * HOUR, 2)
    here, there = (
        Clock(int(begin), float(rate), tuple(sorted(host)))
        for begin, rate, host in zip(begins, rates, cut, strict=True)
    )
    least = (int(rng.uniform(0.02, 5) * MS), int(rng.uniform(0.02, 5) * MS))
    parts = []
    for back, (sender, receiver) in ((False, (here, there)), (True, (there, here))):
        each = np.sort(rng.uniform(0, length, rng.integers(100, 3000))).astype(np.int64)
        for when, ns in (stop for host in cut for stop in host):  # most of a long night tells nothing: none there
            each = each[(each < when) | (each > when + ns)]
        true = np.sort(np.concatenate((each, *(_around(rng, when, ns) for host in cut for when, ns in host))))
        true = true[(true >= 0) & ~sender.asleep(true)]
        seen = receiver.woken(true + delays(rng, least[back], true))
        part = np.empty(len(true), MESSAGE)
        sent, received = sender.at(true), receiver.at(seen)
        part["here"], part["there"], part["back"] = (received, sent, True) if back else (sent, received, False)
        parts.append(part)
    messages = np.concatenate(parts)
    return World(here, there, length, messages[rng.permutation(len(messages))], least)


def _around(rng: np.random.Generator, when: int, ns: int) -> np.ndarray:
    """Messages shortly before and after a stop."""
    return np.concatenate((when - rng.uniform(0, 30, 50) * SECOND, when + ns + rng.uniform(0, 30, 50) * SECOND)).astype(
        np.int64
    )

"""What went wrong lately, and what may be going wrong now."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvscope.analysis.bands import Band
from kvscope.live.enginefigures import EXPIRED
from kvscope.model.requests import State
from kvscope.model.splits import MARKS, Splits

PATIENCE_NS = 10_000_000_000
"""A request without a first token that is older than this is stuck, whatever is usual here;"""
UNUSUAL = 3.0
"""so is one that is so many times older than nearly all others ever were (p99);"""
LEAST_NS = 1_000_000_000
"""but nobody misses a request within the first second."""
MINUTE_NS = 60_000_000_000
PREEMPTED = 1 << MARKS.index("preempted")


@dataclass(frozen=True)
class FleetTrouble:
    """Counts of a window."""

    failures: int
    """requests that failed, or failed and were mended"""
    expired: int
    """of these, because a registration, a read or a lease ran out"""
    preempted: int
    stuck: int
    stuck_ns: int
    """the age from which on a request is stuck"""
    oldest_ns: int
    """age of the oldest stuck one; 0 if there is none"""
    span_ns: int

    def per_minute(self, count: int) -> float:
        """A count of the window as a rate."""
        return count * MINUTE_NS / max(1, self.span_ns)


def gather_trouble(window: Splits, bands: tuple[Band, ...], span_ns: int) -> FleetTrouble:
    """Count over the requests of a window of `span_ns`."""
    limit = stuck_after(bands)
    ages = window.age[stuck(window, limit)]
    failed = window.failure[:, 0] != 0
    return FleetTrouble(
        failures=int(failed.sum()),
        expired=int((failed & EXPIRED[np.where(window.failure[:, 1] < len(EXPIRED), window.failure[:, 1], 0)]).sum()),
        preempted=int((window.marks & PREEMPTED != 0).sum()),
        stuck=len(ages),
        stuck_ns=limit,
        oldest_ns=int(ages.max(initial=0)),
        span_ns=span_ns,
    )


def stuck_after(bands: tuple[Band, ...]) -> int:
    """ns: the age from which on a request without a first token is stuck."""
    slow = next((band.percentile_ns for band in bands if band.name == "p99"), PATIENCE_NS)
    return int(min(PATIENCE_NS, max(LEAST_NS, UNUSUAL * slow)))


def stuck(window: Splits, limit_ns: int) -> np.ndarray:
    """(n,) bool: without a first token for longer than that"""
    return np.asarray(window.in_state(State.UNFINISHED) & (window.age > limit_ns))

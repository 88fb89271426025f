"""When py-spy looked: by its own count of time, pinned to CLOCK_MONOTONIC from outside.

At each look py-spy reads one file for each thread of the process, and in between it reads nothing. So what the kernel
counts of its reads, asked often, says how many looks lie between two askings. The trace has the times of the looks that
found something changed, from a zero that is known only roughly: it lies where most of them fall between two askings
that have a look between them. The looks that are left over then found nothing changed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

STEP_NS = 50_000
LEAST_LOOKS = 8
"""With fewer in the trace, the rough zero is taken."""
AS_GOOD = 0.98
"""Zeros that explain so much of what the best one explains are as good."""


@dataclass(frozen=True)
class Anchor:
    """When a py-spy's own count of time began, on CLOCK_MONOTONIC."""

    zero_ns: int
    low_ns: int
    high_ns: int
    """It began from `low_ns` to `high_ns`, as far as is known."""

    @property
    def error_ns(self) -> int:
        """How far off `zero_ns` can be."""
        return max(self.high_ns - self.zero_ns, self.zero_ns - self.low_ns)


@dataclass(frozen=True)
class Counted:
    """What py-spy had read when it was asked: n askings, by time."""

    t: np.ndarray
    """(n,) i8 ns"""
    looks: np.ndarray
    """(n - 1,) i8: looks that ended between each two"""

    @classmethod
    def of(cls, counts: list[tuple[int, int, int]]) -> Counted:
        """`counts`: (when, reads by then, threads of the process), by time."""
        t, reads, threads = np.array(counts, np.int64).reshape(-1, 3).T
        return cls(t, _looks_between(reads, _most_common(threads.tolist())))


def pinned(rough: Anchor, counted: Counted, us: np.ndarray) -> Anchor:
    """A better anchor. `us`: (k,) when the looks of the trace were, since it began."""
    if len(us) < LEAST_LOOKS or not counted.looks.any():
        return rough
    zeros = np.arange(rough.low_ns, rough.high_ns + STEP_NS, STEP_NS)
    explained = np.array([_explained(zero, counted, us) for zero in zeros.tolist()])
    good = np.flatnonzero(explained >= AS_GOOD * explained.max())
    low, high = int(zeros[good[0]]), int(zeros[good[-1]])
    return Anchor(int(zeros[np.argmax(explained)]), low - STEP_NS, high + STEP_NS)


def _explained(zero: int, counted: Counted, us: np.ndarray) -> int:
    place = np.searchsorted(counted.t, zero + us * 1000) - 1
    inside = place[(place >= 0) & (place < len(counted.looks))]
    return int((counted.looks[inside] > 0).sum())


def unchanged(counted: Counted, changed: np.ndarray) -> list[int]:
    """When looks were that found nothing changed: in the middle between two askings. `changed`: (k,) ns, the others."""
    in_trace = np.diff(np.searchsorted(changed, counted.t, side="right"))
    left = _settled((counted.looks - in_trace).tolist())
    middle = ((counted.t[1:] + counted.t[:-1]) // 2).tolist()
    return [t for t, each in zip(middle, left, strict=True) for _ in range(each)]


def _looks_between(reads: np.ndarray, each: int) -> np.ndarray:
    """`each`: reads of one look. One that is under way has not ended."""
    if not each:
        return np.zeros(max(len(reads) - 1, 0), np.int64)
    return np.diff((reads - _most_common((reads % each).tolist())) // each)


def _most_common(numbers: list[int]) -> int:
    return Counter(numbers).most_common(1)[0][0] if numbers else 0


def _settled(left: list[int]) -> list[int]:
    """What is left of each count. A look is written down a little after it was taken: where more are in the trace than
    were counted, the ones before were counted too early."""
    for place in range(len(left) - 1, 0, -1):
        if left[place] < 0:
            left[place - 1] += left[place]
            left[place] = 0
    return [max(each, 0) for each in left]

"""Where the buckets of the histograms end, and why there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Buckets:
    """Upper bounds in ns, ascending; the last bucket has none."""

    ns: tuple[int, ...]
    reason: str

    def __len__(self) -> int:
        return len(self.ns) + 1

    @property
    def seconds(self) -> tuple[str, ...]:
        """The bounds as Prometheus has them."""
        return (*(repr(ns / 1e9) for ns in self.ns), "+Inf")

    def of(self, ns: np.ndarray) -> np.ndarray:
        """Index of the bucket of each value: the first whose bound is not below it."""
        return np.searchsorted(np.array(self.ns), ns, "left")


def _decades(steps: tuple[float, ...], first: int, last: int) -> tuple[int, ...]:
    """Bounds from `first` to `last` ns, both included."""
    bounds = [round(first * 10**decade * step) for decade in range(12) for step in steps]
    return tuple(ns for ns in bounds if ns <= last)


_TENTH_MS, _HUNDRED_S = 100_000, 100_000_000_000

FINE = Buckets(
    _decades((1, 2.5, 5), _TENTH_MS, _HUNDRED_S),
    "0.1 ms to 100 s, three to a decade: objectives lie at such numbers, and a quantile is known to a factor of 2.5",
)
COARSE = Buckets(
    _decades((1, 3), _TENTH_MS, _HUNDRED_S),
    "0.1 ms to 100 s, two to a decade: a stage is judged by its order of magnitude, and there are many of them",
)

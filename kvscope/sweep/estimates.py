"""A figure of some requests with its interval, or None where they are too few to say it.

Neighbours in time share a queue: what the bootstrap draws are stretches of requests in the order of their arrival.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log

import numpy as np

from kvscope.analysis.bands import nearest_rank
from kvscope.analysis.ratio import LEVEL, student, widened
from kvscope.comparison.differences import stretch_of

RESAMPLES, LEAST_RESAMPLES = 1000, 200
MOST_WEIGHTS = 4_000_000
FEWEST = {50: 10, 95: 40}
"""Requests from which on a percentile is told."""
FEWEST_MEAN = 10


@dataclass(frozen=True)
class Estimate:
    """A figure, ns."""

    value: float
    low: float
    high: float
    """the ends of its interval"""
    requests: int
    open: bool = False
    """the largest value seen may lie below the true one: the interval has no upper end that can be trusted"""

    @property
    def sure(self) -> bool:
        """Of a difference: whether it is more than chance."""
        return self.low > 0 or self.high < 0


def percentile(values: np.ndarray, percent: int, seed: int = 0) -> Estimate | None:
    """Nearest rank. values: (n,) ns in the order of arrival, all known"""
    n = len(values)
    if n < FEWEST[percent]:
        return None
    share = percent / 100
    stretch = stretch_of(n)
    order = np.argsort(values, kind="stable")
    ranked = values[order].astype(float)
    weights = _drawn(stretch, n, seed)[:, stretch[order]]
    reached = np.cumsum(weights, axis=1)
    # A rank is met at its share of all, but for what adding up costs.
    at = (reached >= share * reached[:, -1:] * (1 - 1e-12)).argmax(axis=1)
    value = float(ranked[nearest_rank(n, percent)])
    low, high = np.quantile(ranked[at], widened(int(stretch[-1]) + 1))
    return Estimate(value, min(value, float(low)), max(value, float(high)), n, n < enough_above(share))


def mean(values: np.ndarray, looks: int = 1, seed: int = 0) -> Estimate | None:
    """Of (n,) values in the order of arrival. looks: so many intervals are to hold together."""
    n = len(values)
    if n < FEWEST_MEAN:
        return None
    stretch = stretch_of(n)
    count = int(stretch[-1]) + 1
    sums, sizes = np.bincount(stretch, values, count), np.bincount(stretch, minlength=count)
    times = _drawn(stretch, n, seed)
    error = float(((times @ sums) / (times @ sizes)).std()) * (count / (count - 1)) ** 0.5
    reach = student(1 - (1 - LEVEL) / max(1, looks) / 2, count - 1) * error
    value = float(values.mean())
    return Estimate(value, value - reach, value + reach, n)


def enough_above(share: float) -> int:
    """Requests of which one at least lies above the quantile in 39 of 40 samples."""
    return ceil(log((1 - LEVEL) / 2) / log(share))


def _drawn(stretch: np.ndarray, n: int, seed: int) -> np.ndarray:
    """(resamples, stretches) how often each stretch is drawn."""
    count = int(stretch[-1]) + 1
    resamples = max(LEAST_RESAMPLES, min(RESAMPLES, MOST_WEIGHTS // n))
    return np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), resamples).astype(float)

"""How much a figure differs among requests that are alike, and how sure that is.

Within each stratum the difference of the means, over the strata their weighted mean. Neighbours in time resemble each
other, so what the bootstrap draws are stretches of requests, never single ones. All figures are drawn together: the
interval of each is so wide that in 19 of 20 comparisons of like with like *no* figure lies outside its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from statistics import NormalDist

import numpy as np

from kvscope.analysis.ratio import LEVEL, POWER, student
from kvscope.comparison.alike import Alike
from kvscope.comparison.side import FIGURES, Figure, Side

RESAMPLES = 2000
MOST_STRETCHES = 200
"""Of one side: more tell no more, and take longer."""
LEAST_STRETCHES = 8
RARE = 10
"""Requests of a side in which a stage must have taken time on either side: of fewer no interval is to be trusted."""


@dataclass(frozen=True)
class Difference:
    """Of one figure, ns; the other side minus the one."""

    figure: Figure
    was: float
    """mean on the one side, over strata as weighted"""
    now: float
    value: float
    low: float
    high: float
    """the ends of its interval"""
    error: float
    """standard error"""
    smallest: float
    """what four in five such comparisons would have told from none"""

    @property
    def sure(self) -> bool:
        """Whether it is more than chance."""
        return self.low > 0 or self.high < 0


def differences(one: Side, other: Side, same: Alike, seed: int = 0, resamples: int = RESAMPLES) -> list[Difference]:
    """Of each figure that enough requests have; [] where nothing is alike or too little to draw from."""
    if min(same.counts) < LEAST_STRETCHES:
        return []
    columns = [at for at in range(len(FIGURES)) if _enough(_sides(one, other, same), at)]
    if not columns:
        return []
    rng = np.random.default_rng(seed)
    sides = [_Sums(side.values[:, columns], group, len(same.weights)) for side, group in _sides(one, other, same)]
    was, now = (sums.means(same.weights) for sums in sides)
    drawn = [sums.drawn(same.weights, rng, resamples) for sums in sides]
    found, spread = now - was, drawn[1] - drawn[0]
    few = min(len(sums) for sums in sides)
    error = spread.std(axis=0) * np.sqrt(few / (few - 1))
    told = error > 0
    farthest = np.abs((spread - found)[:, told] / error[told]).max(axis=1) if told.any() else np.zeros(1)
    # Student's quantile over the normal's: a bootstrap of few stretches is too narrow by it.
    share = 0.5 + LEVEL / 2
    reach = float(np.quantile(farthest, LEVEL)) * student(share, few - 1) / NormalDist().inv_cdf(share)
    power = NormalDist().inv_cdf(POWER)
    columns_of = (was, now, found, found - reach * error, found + reach * error, error, (reach + power) * error)
    return [Difference(FIGURES[column], *(float(each[at]) for each in columns_of)) for at, column in enumerate(columns)]


def _sides(one: Side, other: Side, same: Alike) -> tuple[tuple[Side, np.ndarray], tuple[Side, np.ndarray]]:
    return (one, same.groups[0]), (other, same.groups[1])


def _enough(sides: tuple[tuple[Side, np.ndarray], ...], column: int) -> bool:
    values = [side.values[group >= 0, column] for side, group in sides]
    known = min(int((~np.isnan(each)).sum()) for each in values)
    return known >= RARE and max(int((each > 0).sum()) for each in values) >= RARE


def stretch_of(n: int) -> np.ndarray:
    """(n,) number of the stretch of neighbours that each of n requests belongs to: of about the cube root of n."""
    length = max(round(n ** (1 / 3)), ceil(n / MOST_STRETCHES))
    stretches = max(LEAST_STRETCHES, n // length)
    return np.asarray(np.arange(n) * stretches // n)


class _Sums:
    """Sums and counts of the figures of one side, for each stretch of requests and each stratum."""

    def __init__(self, values: np.ndarray, group: np.ndarray, strata: int) -> None:
        kept = group >= 0
        values, group = values[kept], group[kept]
        stretch = stretch_of(len(values))
        self._stretches = int(stretch[-1]) + 1
        cell = stretch * strata + group
        known = ~np.isnan(values)
        shape = (self._stretches, strata, values.shape[1])
        self._sums = _added(np.where(known, values, 0.0), cell, shape)
        self._counts = _added(known.astype(float), cell, shape)

    def __len__(self) -> int:
        """Stretches."""
        return int(self._stretches)

    def means(self, weights: np.ndarray) -> np.ndarray:
        """(figures,) over the strata, as weighted."""
        return np.asarray(_weighted(self._sums.sum(axis=0)[None], self._counts.sum(axis=0)[None], weights)[0])

    def drawn(self, weights: np.ndarray, rng: np.random.Generator, resamples: int) -> np.ndarray:
        """(resamples, figures): the same of stretches drawn with replacement."""
        times = rng.multinomial(self._stretches, np.full(self._stretches, 1 / self._stretches), resamples).astype(float)
        sums, counts = (np.tensordot(times, each, axes=1) for each in (self._sums, self._counts))
        return _weighted(sums, counts, weights)


def _added(values: np.ndarray, cell: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    size = shape[0] * shape[1]
    return np.stack([np.bincount(cell, column, size) for column in values.T], axis=1).reshape(shape)


def _weighted(sums: np.ndarray, counts: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(k, strata, figures) -> (k, figures): strata of which nothing was drawn count as if they were not there."""
    there = np.where(counts > 0, weights[None, :, None], 0.0)
    means = sums / np.maximum(counts, 1)
    return np.asarray((means * there).sum(axis=1) / np.maximum(there.sum(axis=1), 1e-300))

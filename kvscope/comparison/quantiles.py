"""How far apart the two sides lie at each quantile of the time to first token, among requests that are alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvscope.comparison.alike import Alike
from kvscope.comparison.differences import stretch_of
from kvscope.comparison.side import Side

AT = np.arange(0.05, 0.96, 0.05)
"""The quantiles: of fewer requests than some hundreds those beyond say nothing."""
RESAMPLES = 400
BAND = (0.025, 0.975)


@dataclass(frozen=True)
class Quantiles:
    """(AT,) ns each."""

    one: np.ndarray
    other: np.ndarray
    low: np.ndarray
    high: np.ndarray
    """the band of other - one, at each quantile by itself"""

    @property
    def apart(self) -> np.ndarray:
        """The other side's quantile minus the one's."""
        return np.asarray(self.other - self.one)


def quantiles(one: Side, other: Side, same: Alike, seed: int = 0) -> Quantiles:
    """Requests count so that each stratum weighs alike on both sides."""
    rng = np.random.default_rng(seed)
    sides = [_Weighted(side.splits.ttft[group >= 0], group[group >= 0], same.weights)
             for side, group in zip((one, other), same.groups, strict=True)]  # fmt: skip
    drawn = [each.drawn(rng) for each in sides]
    low, high = np.quantile(drawn[1] - drawn[0], BAND, axis=0)
    return Quantiles(sides[0].quantiles(), sides[1].quantiles(), low, high)


class _Weighted:
    """Times to first token, ns, each with a weight."""

    def __init__(self, ttft: np.ndarray, group: np.ndarray, weights: np.ndarray) -> None:
        weight = (weights / np.maximum(np.bincount(group, minlength=len(weights)), 1))[group]
        order = np.argsort(ttft, kind="stable")
        self._ttft, self._weight = ttft[order].astype(float), weight[order]
        self._stretch = stretch_of(len(ttft))[order]

    def quantiles(self) -> np.ndarray:
        """(AT,) ns."""
        return self._at(self._weight)

    def drawn(self, rng: np.random.Generator) -> np.ndarray:
        """(RESAMPLES, AT): the same of stretches drawn with replacement."""
        stretches = int(self._stretch.max()) + 1
        share = np.full(stretches, 1 / stretches)
        return np.stack(
            [self._at(self._weight * rng.multinomial(stretches, share)[self._stretch]) for _ in range(RESAMPLES)]
        )

    def _at(self, weight: np.ndarray) -> np.ndarray:
        reached = np.cumsum(weight)
        return np.asarray(self._ttft[np.searchsorted(reached, AT * reached[-1]).clip(max=len(self._ttft) - 1)])

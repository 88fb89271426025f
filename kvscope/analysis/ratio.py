"""How much slower one condition is than another: a ratio with its interval, from blocks measured in turn.

A run alternates two conditions in rounds, one block of each per round, close together in time. What drifts
over the run (load, clocks, neighbours) moves both blocks of a round alike, so each round gives a ratio of its
own, and their weighted geometric mean is the run's: a slow stretch counts no more than a fast one. Rounds are
what the bootstrap resamples, never requests, which within a block are not independent.

The percentile interval of n rounds is too narrow by sqrt(1 - 1/n) and by the normal's quantile standing in
for Student's. Both are undone by reading it at wider percentiles, so that some ten rounds are enough for 95 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import NormalDist

import numpy as np

LEVEL = 0.95
POWER = 0.8
LEAST_ROUNDS = 4
RESAMPLES = 4000


@dataclass(frozen=True)
class Block:
    """One stretch of a run under one condition."""

    mean: float
    """Of what was measured in it, or any other single figure such as a median; above 0."""
    weight: float = 1.0
    """How much it counts: the number of observations for a mean of them, 1 to count blocks alike."""


Round = tuple[Block, Block]
"""The block under test and the one it is held against."""


@dataclass(frozen=True)
class Ratio:
    """Tested over reference: above 1 is slower, where what is measured is a time."""

    value: float
    low: float
    high: float
    """The ends of the 95 % interval."""
    rounds: int
    error: float
    """Standard error of the ratio's logarithm."""

    @property
    def width(self) -> float:
        """Of the interval, on the logarithmic scale: 0.1 is about ten per cent from end to end."""
        return log(self.high / self.low)

    @property
    def smallest_effect(self) -> float:
        """The slowdown (0.02 is 2 %) that four in five runs like this one would have told from none.

        The half-width would be the smaller figure and the kinder: an effect of just that size is missed by
        every second run.
        """
        normal = NormalDist()
        return exp((normal.inv_cdf(0.5 + LEVEL / 2) + normal.inv_cdf(POWER)) * self.error) - 1


def compared(rounds: Sequence[Round], seed: int = 0, resamples: int = RESAMPLES) -> Ratio:
    """Tested over reference. ValueError: fewer than LEAST_ROUNDS rounds, or a block without a figure."""
    if len(rounds) < LEAST_ROUNDS:
        raise ValueError(f"{len(rounds)} rounds are too few for an interval; it takes {LEAST_ROUNDS}")
    if not all(block.mean > 0 and block.weight > 0 for pair in rounds for block in pair):
        raise ValueError("a block has no figure above 0")
    logs = np.array([log(tested.mean / reference.mean) for tested, reference in rounds])
    # The inverse of the sum of both blocks' variances, which go with the inverse of their weights.
    weights = np.array([1 / (1 / tested.weight + 1 / reference.weight) for tested, reference in rounds])
    drawn = np.random.default_rng(seed).integers(0, len(rounds), (resamples, len(rounds)))
    means = (logs * weights)[drawn].sum(axis=1) / weights[drawn].sum(axis=1)
    low, high = np.quantile(means, widened(len(rounds)))
    error = float(means.std()) * sqrt(len(rounds) / (len(rounds) - 1))
    return Ratio(exp(np.average(logs, weights=weights)), exp(low), exp(high), len(rounds), error)


def neighbours(blocks: Sequence[Block]) -> list[Round]:
    """Blocks of one condition against each other: each two in a row are a round, taken in turn either way round.

    Their ratio is 1 but for noise, so its interval says what the run makes of no difference at all.
    """
    pairs = list(zip(blocks[::2], blocks[1::2], strict=False))
    return [pair if number % 2 else (pair[1], pair[0]) for number, pair in enumerate(pairs)]


def widened(rounds: int, level: float = LEVEL) -> tuple[float, float]:
    """The percentiles (as shares) at which to read a bootstrap of so many rounds for an interval of `level`."""
    reach = sqrt(rounds / (rounds - 1)) * student(0.5 + level / 2, rounds - 1)
    tail = NormalDist().cdf(-reach)
    return tail, 1 - tail


def student(share: float, freedom: int) -> float:
    """Quantile of Student's t by its expansion around the normal's; within 1 % from 4 degrees of freedom on."""
    z = NormalDist().inv_cdf(share)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + float(sum(term / freedom**power for power, term in enumerate(terms, 1)))

"""Whether two ways of doing the same differ, from requests that were sent alike under both.

Pairs that lie close together in time share what the machine was doing, so that their differences tell of the ways.
All of it counts signs and ranks only: a stall of a second among forty differences of a millisecond weighs as much
as any other value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

SURE = 0.9999
"""Level of the intervals: some forty are looked at in one run, of which none may lie."""


def median_interval(values: Sequence[float] | np.ndarray, level: float = SURE) -> tuple[float, float]:
    """The two of `values` between which the median they were drawn from lies, in `level` of cases at least.

    Each value is below that median by the toss of a coin, whatever the distribution. ValueError: too few values.
    """
    count = len(values)
    outside = 0
    while 2 * _at_most(outside, count) <= 1 - level:
        outside += 1
    if not outside:
        raise ValueError(f"{count} values are too few for an interval of {level:.2%}")
    ordered = np.sort(values)
    return float(ordered[outside - 1]), float(ordered[-outside])


def _at_most(heads: int, tosses: int) -> float:
    """Chance of no more heads than that."""
    return float(sum(comb(tosses, each) for each in range(heads + 1)) / 2**tosses)


@dataclass(frozen=True)
class Trade:
    """Something that holds or does not, of the same requests under two ways."""

    pairs: int
    only_first: int
    only_second: int

    @property
    def gain(self) -> float:
        """By what share of the requests it holds more often under the first."""
        return (self.only_first - self.only_second) / self.pairs

    @property
    def chance(self) -> float:
        """Of a trade so much in favour of the first if it made no difference: the sign test's."""
        return _at_most(self.only_second, self.only_first + self.only_second)


def trade(first: Sequence[bool], second: Sequence[bool]) -> Trade:
    """Count the pairs in which it holds under one way only."""
    pairs = list(zip(first, second, strict=True))
    return Trade(len(pairs), pairs.count((True, False)), pairs.count((False, True)))

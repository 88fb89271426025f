"""A few levels for many values, with limits in round numbers, so that they stay the same while values move a little."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

STEPS = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
"""Round numbers of a decade: each about one and a half times the one before."""
LEVELS = 6


@dataclass(frozen=True)
class Levels:
    """Level k holds values from limit k-1 on and below limit k; the first and the last are open."""

    limits: tuple[float, ...]
    """ascending"""

    def of(self, values: np.ndarray) -> np.ndarray:
        """Level of each value, which must be known."""
        return np.searchsorted(self.limits, values, "right")


def levels_from_the_top(greatest: float, whole: bool = False) -> Levels:
    """Levels that reach up to the greatest value. `whole`: of counts, of which none is a level of its own."""
    if greatest < 1 and (whole or greatest <= 0):
        return Levels(())
    series = _series(greatest, -1)
    if whole:
        series = sorted({math.ceil(limit) for limit in series if limit >= 1})
    return Levels(tuple(limit for limit in series if limit <= greatest)[1 - LEVELS :])


def levels_from_the_bottom(least: float) -> Levels:
    """Levels that reach down to the least value, which is above 0."""
    return Levels(tuple(limit for limit in _series(least, 1) if limit > least)[: LEVELS - 1])


def _series(value: float, direction: int) -> list[float]:
    """Round numbers of the decade of a value and of its neighbours on one side."""
    decade = math.floor(math.log10(value))
    decades = range(decade - 1, decade + 1) if direction < 0 else range(decade, decade + 2)
    return [float(f"{step}e{exponent}") for exponent in decades for step in STEPS]

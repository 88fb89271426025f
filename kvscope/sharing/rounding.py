"""Sizes, rounded so that they tell none from another and are still sizes."""

from __future__ import annotations

import numpy as np

from kvscope.probe.vocabulary import UNKNOWN

EXACT = 8
"""What is smaller stays as it is: none, one and a few are told apart."""
MOST = 1 << 60


def rounded(values: np.ndarray) -> np.ndarray:
    """(..) i8, each to the nearest of the four numbers to each doubling: 8, 10, 12, 14, 16, 20, ..; by 1/9 at most.

    In order as before, rounding again changes nothing, and what is not known stays so. Sizes below zero are none.
    """
    wide = np.clip(values, 0, MOST)
    _, exponent = np.frexp(wide.astype(np.float64))
    shift = np.maximum(exponent.astype(np.int64) - 3, 0)
    near = (wide + (np.int64(1) << shift >> 1)) >> shift << shift
    return np.where(values < 0, UNKNOWN, np.where(wide < EXACT, wide, near))


def rounded_one(value: int) -> int:
    """As `rounded`, of one."""
    return int(rounded(np.array([min(value, MOST)]))[0])

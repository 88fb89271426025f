"""Which of many are among a few: one-byte codes (moments, roles, shapes, states), and keys."""

from __future__ import annotations

from functools import lru_cache

import numpy as np


def among(codes: np.ndarray, *wanted: int) -> np.ndarray:
    """(n,) bool for (n,) u1 codes. By a table: these are asked for so often that sorting them shows."""
    return np.asarray(_table(wanted)[codes])


def within(keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """(n,) bool for (n,) keys, of (m,) wanted. As `np.isin`, which sorts both, and more than once."""
    if not len(wanted):
        return np.zeros(len(keys), bool)
    ordered = np.sort(wanted)
    at = np.searchsorted(ordered, keys)
    return np.asarray(ordered[np.minimum(at, len(ordered) - 1)] == keys)


@lru_cache
def _table(wanted: tuple[int, ...]) -> np.ndarray:
    table = np.zeros(256, bool)
    table[list(wanted)] = True
    return table

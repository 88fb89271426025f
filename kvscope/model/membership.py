"""Which of many one-byte codes (moments, roles, shapes, states) are among a few."""

from __future__ import annotations

from functools import lru_cache

import numpy as np


def among(codes: np.ndarray, *wanted: int) -> np.ndarray:
    """(n,) bool for (n,) u1 codes. By a table: these are asked for so often that sorting them shows."""
    return np.asarray(_table(wanted)[codes])


@lru_cache
def _table(wanted: tuple[int, ...]) -> np.ndarray:
    table = np.zeros(256, bool)
    table[list(wanted)] = True
    return table

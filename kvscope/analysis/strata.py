"""Requests that are about alike: what is compared within these is no matter of what was asked for."""

from __future__ import annotations

import numpy as np


def octaves(values: np.ndarray, parts: int = 1) -> np.ndarray:
    """(n,) i8: one number for each of so many parts of an octave, -1 where a value is not known or below 1"""
    known = values > 0
    return np.where(known, np.round(parts * np.log2(np.where(known, values, 1))), -1).astype(int)

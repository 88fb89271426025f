"""Figures of many groups in one pass: no loop over requests, whatever the number of engines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def grouped_percentile(values: np.ndarray, group: np.ndarray, groups: int, percentile: float) -> np.ndarray:
    """(groups,) f8 nearest-rank percentile of each group, NaN of an empty one. values, group: (n,); no group is < 0."""
    return grouped_percentiles(values, group, groups, (percentile,))[0]


def grouped_percentiles(
    values: np.ndarray, group: np.ndarray, groups: int, percentiles: Sequence[float]
) -> list[np.ndarray]:
    """The same for several percentiles."""
    order = _order(values, group, groups)
    counts = np.bincount(group, minlength=groups)
    begins, some = np.cumsum(counts) - counts, counts > 0
    found = []
    for percentile in percentiles:
        rank = np.clip(np.ceil(percentile / 100 * counts).astype(int) - 1, 0, None)
        column = np.full(groups, np.nan)
        column[some] = values[order[(begins + rank)[some]]]
        found.append(column)
    return found


def _order(values: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    """By group, then by value. Numbers of 16 bits are sorted by their digits, which takes a tenth of the time."""
    order = np.argsort(values)
    small = np.uint16 if groups <= np.iinfo(np.uint16).max else np.int64
    return order[np.argsort(group[order].astype(small), kind="stable")]


def grouped_sum(values: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    """(groups,) f8 sums; exact up to 2**53."""
    return np.asarray(np.bincount(group, values, groups))


def grouped_mean(values: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    """(groups,) f8 means, NaN of an empty group."""
    counts = np.bincount(group, minlength=groups)
    means = np.full(groups, np.nan)
    np.divide(grouped_sum(values, group, groups), counts, where=counts > 0, out=means)
    return means

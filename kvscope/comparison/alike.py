"""Which requests of both sides are alike, and how much of each side that is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvscope.comparison.side import Side

FEWEST = 3
"""Requests of a stratum that it takes on each side: of fewer no mean says anything."""


@dataclass(frozen=True)
class Alike:
    """Strata that both sides have."""

    groups: tuple[np.ndarray, np.ndarray]
    """(n,) number of each request's stratum, -1 of those that only one side has; of one side and of the other"""
    weights: np.ndarray
    """(strata,) how much each counts, together 1: as much as it can tell of a difference"""

    @property
    def counts(self) -> tuple[int, int]:
        """Requests of each side that are compared."""
        one, other = (int((group >= 0).sum()) for group in self.groups)
        return one, other


def alike(one: Side, other: Side, fewest: int = FEWEST) -> Alike:
    """Number the strata that have so many requests on both sides."""
    whole = np.concatenate((one.strata, other.strata))
    _, group = np.unique(whole, axis=0, return_inverse=True)
    group = group.reshape(-1)
    parts = group[: len(one)], group[len(one) :]
    size = int(group.max(initial=-1)) + 1
    n, m = (np.bincount(part, minlength=size) for part in parts)
    kept = (n >= fewest) & (m >= fewest)
    number = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)
    weights = (n * m / np.maximum(n + m, 1))[kept]
    total = weights.sum()
    return Alike((number[parts[0]], number[parts[1]]), weights / total if total else weights)

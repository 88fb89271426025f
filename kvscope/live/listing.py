"""Which requests a table shows, in which order."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kvscope.live.figures import FIGURE
from kvscope.live.filter import Filter
from kvscope.live.history import when
from kvscope.model.requests import State
from kvscope.model.splits import Splits

NEWEST = "newest"
"""The order in which they came: those under way first, then by first token or end."""


@dataclass(frozen=True)
class Listing:
    """What was asked for."""

    order: str = NEWEST
    """NEWEST or the name of a figure"""
    descending: bool = True
    wanted: Filter | None = None

    def sorted_by(self, order: str) -> Listing:
        """By another figure, largest first; by the same one the other way round."""
        if order == self.order:
            return replace(self, descending=not self.descending)
        return replace(self, order=order, descending=True)

    def rows(self, splits: Splits) -> np.ndarray:
        """Indices of the requests to show, in order. Those whose figure is not known come last."""
        rows = np.arange(len(splits)) if self.wanted is None else np.flatnonzero(self.wanted(splits))
        if self.order == NEWEST:
            keys = np.where(splits.in_state(State.UNFINISHED), np.iinfo(np.int64).max, when(splits))[rows].astype(float)
        else:
            keys = FIGURE[self.order].of(splits)[rows]
        unknown = np.isnan(keys)
        keys = np.where(unknown, 0.0, -keys if self.descending else keys)
        return np.asarray(rows[np.lexsort((keys, unknown))])

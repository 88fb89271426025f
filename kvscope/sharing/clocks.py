"""A host's clock, shifted: it tells how far apart things were, and no longer since when the host is up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvscope.sources.lifetimes import ALWAYS, NEVER

MARGIN_NS = 600 * 10**9
"""An instant so far from all events is of another clock, or of none: told as it is, it would give the shift away."""


@dataclass(frozen=True)
class Clock:
    """Times in ns."""

    shift: int = 0
    first: int = 0
    last: int = 0
    """Of the events there."""

    def events(self, t: np.ndarray) -> np.ndarray:
        """Times of events, shifted; impossible ones stay impossible."""
        possible = (t > ALWAYS) & (t < NEVER)
        return np.where(possible, np.where(possible, t, 0) + np.int64(self.shift), np.int64(NEVER))

    def instants(self, t: np.ndarray) -> np.ndarray:
        """Instants that events name, shifted; those far from all events are put at the margin's end."""
        return np.asarray(np.clip(t, self.first - MARGIN_NS, self.last + MARGIN_NS) + self.shift)


NO_CLOCK = Clock()

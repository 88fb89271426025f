"""Legs that no source follows to their end: the records of what came next are in none of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvscope.core.legs import Legs
from kvscope.model.events import Process

_FAR = np.iinfo(np.int64).max


def cut_legs(legs: Legs, processes: Sequence[Process], now: int) -> np.ndarray:
    """(legs,) bool: all that was seen of the leg lies before a gap of its engine that is over by `now` (ns)."""
    cut = np.zeros(len(legs.hash), bool)
    gaps = [(index, gap) for index, process in enumerate(processes) for gap in process.gaps if gap.end <= now]
    if not gaps or not len(cut):
        return cut
    last = np.full(len(cut), -_FAR)
    np.maximum.at(last, legs.leg, legs.rows["t"])
    for index, gap in gaps:
        cut |= (legs.engine == legs.engines.of_process[index]) & (last <= gap.begin)
    return cut

"""How the slow requests fared over the last half hour, a figure for each stretch of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvscope.analysis.bands import percentile_of
from kvscope.model.splits import Splits

STEP_NS = 10_000_000_000
KEPT = 180
"""Steps: half an hour."""


@dataclass(frozen=True)
class Point:
    """One stretch of `STEP_NS`."""

    begin: int
    requests: int
    p50_ns: float
    p95_ns: float


class Trend:
    """Keeps a point for each stretch; the last one grows."""

    def __init__(self) -> None:
        self._points: dict[int, Point] = {}

    @property
    def points(self) -> tuple[Point, ...]:
        """Oldest first; stretches without a first token have none."""
        return tuple(self._points[key] for key in sorted(self._points))

    def add(self, splits: Splits, now: int) -> None:
        """Judge the stretches that requests with a TTFT may still come into: the last two."""
        for key in (now // STEP_NS - 1, now // STEP_NS):
            inside = splits.ttft[splits.timed & (splits.first_token // STEP_NS == key)]
            if len(inside):
                self._points[key] = _point(key, inside)
        for key in [key for key in self._points if key <= now // STEP_NS - KEPT]:
            del self._points[key]


def _point(key: int, ttft: np.ndarray) -> Point:
    return Point(key * STEP_NS, len(ttft), percentile_of(ttft, 50), percentile_of(ttft, 95))

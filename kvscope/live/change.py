"""How the split of a percentile differs from what it was, and which class the difference is."""

from __future__ import annotations

from dataclasses import dataclass

from kvscope.analysis.bands import CLASSES, Band
from kvscope.model.stages import Class

WORTH = 0.05
"""A change of less than this share of what it was is no change to explain."""
MOST = 0.5
"""A class explains a change if so much of it is the class's, whatever the undetermined time was."""


@dataclass(frozen=True)
class Change:
    """From one band to another, ns; differences of the means by class add up to that of the mean."""

    percentile_ns: float
    mean_ns: float
    classes: tuple[float, ...]
    """in the order of CLASSES"""
    explained_by: tuple[Class, float] | None
    """(class, its share of the change); None where it is small, or no one class's"""


def change_of(was: Band, now: Band) -> Change:
    """What is new in `now`."""
    classes = tuple(now.class_ns(cls) - was.class_ns(cls) for cls in CLASSES)
    mean = now.mean_ns - was.mean_ns
    return Change(now.percentile_ns - was.percentile_ns, mean, classes, _explained(was, mean, classes))


def _explained(was: Band, mean: float, classes: tuple[float, ...]) -> tuple[Class, float] | None:
    if abs(mean) < WORTH * was.mean_ns or not mean:
        return None
    shares = {cls: ns / mean for cls, ns in zip(CLASSES, classes, strict=True)}
    unsure = abs(shares.pop(Class.UNDETERMINED))
    cls = max(shares, key=lambda each: shares[each])
    return (cls, shares[cls]) if shares[cls] - unsure >= MOST else None

"""Mode against mode, within cells that were sent the same: request by request, since each has its like there."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kvscope.analysis.bands import CLASSES, class_ns
from kvscope.lab.sweeping.cell import MODES
from kvscope.model.stages import Class
from kvscope.sweep.estimates import FEWEST_MEAN, Estimate, mean
from kvscope.sweep.measured import Inside, Measured, key_of

AGAINST = (("push-early", "push-sequential"), ("push-early", "pull"), ("push-sequential", "pull"))
"""The one, and what it is held against."""
LOOKS = 2
"""Figures of each contrast that are judged: TTFT and TPOT."""


@dataclass(frozen=True)
class Contrast:
    """One mode minus another, ns, in one cell."""

    one: Measured
    other: Measured
    ttft: Estimate | None
    """Mean difference; None of too few."""
    tpot: Estimate | None
    classes: tuple[tuple[Class, float], ...]
    """Mean difference of each class on the path, of the same requests as `ttft`; empty without recordings"""
    pairs: int
    """Requests that both have a time to first token of."""
    tpot_pairs: int
    """Likewise of a time per token."""
    left_out: int
    """Requests that only one of them has."""
    inside: bool
    """Times from inside the engines; else as the client saw them."""

    @property
    def words(self) -> str:
        """`push early against pull`."""
        return f"{self.one.cell.mode_words} against {self.other.cell.mode_words}"

    @property
    def verdict(self) -> str:
        """Of the time to first token."""
        if self.ttft is None:
            return "too few"
        return "no more than chance" if not self.ttft.sure else "higher" if self.ttft.value > 0 else "lower"


def contrasts(cells: Sequence[Measured]) -> list[Contrast]:
    """Of all cells that were sent the same under two modes. Their intervals hold together."""
    found = list(_pairs(cells))
    looks = LOOKS * len(found)
    return [_contrast(one, other, looks) for one, other in found]


def _pairs(cells: Sequence[Measured]) -> list[tuple[Measured, Measured]]:
    place = {(each.cell.mode, each.cell.condition): each for each in cells}
    conditions = dict.fromkeys(each.cell.condition for each in cells if each.cell.mode in MODES)
    both = (
        (place.get((one, at)), place.get((other, at))) for (one, other), at in itertools.product(AGAINST, conditions)
    )
    return [(one, other) for one, other in both if one is not None and other is not None]


def _contrast(one: Measured, other: Measured, looks: int) -> Contrast:
    inside = one.inside is not None and other.inside is not None
    mine, theirs = (each.ttft if inside else each.client_ttft for each in (one, other))
    apart = paired(mine, theirs)
    steps = paired(one.tpot, other.tpot)
    return Contrast(
        one,
        other,
        mean(apart, looks),
        mean(steps, looks),
        _classes(one.inside, other.inside) if one.inside and other.inside and len(apart) >= FEWEST_MEAN else (),
        len(apart),
        len(steps),
        len(mine.keys() ^ theirs.keys()),
        inside,
    )


def paired(mine: Mapping[str, float], theirs: Mapping[str, float]) -> np.ndarray:
    """(pairs,) mine minus theirs, of what both have, in my order."""
    return np.array([mine[key] - theirs[key] for key in mine if key in theirs], float)


def _classes(one: Inside, other: Inside) -> tuple[tuple[Class, float], ...]:
    places = [{key_of(each.timed.text(row)): row for row in range(len(each.timed))} for each in (one, other)]
    both = [(row, places[1][key]) for key, row in places[0].items() if key in places[1]]
    mine, theirs = np.array(both, int).T
    apart = class_ns(one.timed.exposed[mine]) - class_ns(other.timed.exposed[theirs])
    return tuple((cls, float(ns)) for cls, ns in zip(CLASSES, apart.mean(axis=0), strict=True))

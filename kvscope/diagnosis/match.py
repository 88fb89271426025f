"""What a case says when it fits: whom it struck, what it cost them, and what tells it from what looks alike."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

TIME, SHARE, RATE, COUNT, RATIO = "time", "share", "rate", "count", "ratio"
"""Units of measures: ns, of one, bytes/s, a number, times."""


@dataclass(frozen=True)
class Measure:
    """A figure that is evidence."""

    name: str
    was: float | None
    """None: nothing shows what is usual"""
    now: float
    unit: str = TIME


@dataclass(frozen=True)
class RuledOut:
    """Something that looks alike, and the number by which it is not."""

    slug: str
    would: str
    """what it would have shown"""
    seen: str


@dataclass(frozen=True)
class Match:
    """A case that fits. n: the requests that are judged, whether they have a TTFT or not."""

    slug: str
    stage: str
    """the stage that it lengthens, or in which requests stay"""
    rows: np.ndarray
    """(n,) bool: whom it struck"""
    excess: np.ndarray
    """(n,) f8 ns that it cost each: of its TTFT, or of waiting so far where there is no first token"""
    claims: tuple[str, ...] = ()
    """stages whose growth it explains in the requests that it struck"""
    measured: tuple[Measure, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    refuted_by: str = ""
    refuted: int = 0
    """requests that show what would refute it"""
    detail: str = ""
    """what is particular about it here: which place of several, which engine"""
    unknown: tuple[str, ...] = field(default=())
    missing: str = ""
    """of what no case fits: what would have to be seen to name its cause"""

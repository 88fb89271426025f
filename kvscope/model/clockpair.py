"""What is known of the clocks of two hosts: how far one is ahead of the other, and how well that is known."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class ClockPair:
    """Two hosts between which messages went. What is told of the offset is told of the end of the
    stretch in which most messages agree."""

    here: str
    """As `Process.host` has it"""
    there: str
    sent: int
    """Messages from here to there that bound it"""
    received: int
    """Messages from there to here"""
    offset_ns: int | None
    """What to add to a time of `here` to get the time of `there`; None where it is not known"""
    bound_ns: int | None
    """By how much that may be wrong at most"""
    drift: tuple[float, float] | None
    """By how much `there` runs faster, least and most"""
    steps: int
    """How often one of them was stopped or set, at least"""
    doubtful_ns: int
    """In all, the time in which a step may lie: nothing is told across the two hosts there"""


def bound_between(hosts: Collection[str], pairs: Collection[ClockPair]) -> float:
    """Seconds by which times between two hosts may be wrong, at most; infinite where one compares with no other."""
    known = [pair for pair in pairs if pair.bound_ns is not None]
    if len(hosts) < 2:
        return 0.0
    if not set(hosts) <= {host for pair in known for host in (pair.here, pair.there)}:
        return math.inf
    return max(pair.bound_ns or 0 for pair in known) / 1e9

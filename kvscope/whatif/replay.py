"""The graph replayed with other edges: what happens when, at the least and at the most.

Every moment is the latest of some others plus what the part in between takes. Both only ever grow with what they are
made of, so the least of all parts gives the least of all times, and the most the most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from kvscope.whatif.costs import Cost
from kvscope.whatif.mode import Mode


@dataclass(frozen=True)
class Replayed:
    """n requests, ns from the origin of each; (2, n): at the least, at the most."""

    computed: np.ndarray
    reserved: np.ndarray
    ready: np.ndarray
    """decode noticed its blocks"""
    ttft: np.ndarray
    early: np.ndarray
    """(2, n) bool: decode's half was there before prefill's; all false where there are no two halves"""


def replay(costs: Mapping[str, Cost], to: Mode) -> Replayed:
    """costs: as `costs_of` gives them"""
    bounds = [_replayed(lambda name, side=side: getattr(costs[name], side), to) for side in ("low", "high")]  # type: ignore[misc]
    return Replayed(*(np.stack(pair) for pair in zip(*bounds, strict=True)))


def _replayed(cost: Callable[[str], np.ndarray], to: Mode) -> tuple[np.ndarray, ...]:
    computed = cost("prefill")
    arrived = cost("dispatch") if to.early else computed + cost("dispatch")
    reserved = arrived + cost("front")
    if to.push:
        received = reserved + cost("registration") + cost("flight")
        staged = computed + cost("staging")
        ready = np.maximum(staged, received) + cost("match") + cost("write")
        early = received <= staged
    else:
        # What a read takes is told as of the reserved blocks.
        ready, early = reserved + cost("read"), np.zeros(len(computed), bool)
    return computed, reserved, ready, ready + cost("rest"), early

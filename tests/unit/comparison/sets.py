"""Requests of real recordings, many times over, and what can be done to them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from kvscope.comparison.side import Side, side_of
from kvscope.core.critical_path import split
from kvscope.model.events import Events
from kvscope.model.graph import STAGE_INDEX
from kvscope.model.splits import Splits
from kvscope.sources import open_sources

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"


@cache
def real(name: str) -> tuple[Events, Splits]:
    """A recording of the pictures, and its requests that have a TTFT."""
    events = open_sources([PICTURES / f"{name}.kvs"]).events
    splits = split(events)
    return events, splits.select(splits.timed)


def drawn(name: str, number: int, rng: np.random.Generator) -> Splits:
    """So many requests of a recording, drawn with replacement, in time order; no two begin at one instant."""
    _, splits = real(name)
    chosen = splits.select(np.sort(rng.integers(0, len(splits), number)))
    apart = np.arange(number)
    return replace(chosen, origin=chosen.origin + apart, first_token=chosen.first_token + apart)


def halves(splits: Splits, rng: np.random.Generator) -> tuple[Splits, Splits]:
    """Each request into one of them, by chance."""
    first = rng.permutation(len(splits)) < len(splits) // 2
    return splits.select(first), splits.select(~first)


def slowed(splits: Splits, stage: str, ns: int) -> Splits:
    """The same requests, if that stage had taken so much longer."""
    exposed = splits.exposed.copy()
    exposed[:, STAGE_INDEX[stage]] += ns
    return replace(splits, exposed=exposed, ttft=splits.ttft + ns, first_token=splits.first_token + ns)


def sides(name: str, one: Splits, other: Splits) -> tuple[Side, Side]:
    """As of two recordings."""
    processes = real(name)[0].processes
    return side_of("before.kvs", one, processes), side_of("after.kvs", other, processes)

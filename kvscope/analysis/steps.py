"""When an engine stepped: much of a hand-off is waiting for a step to end or to begin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvscope.model.events import Events
from kvscope.model.requests import RequestSplit
from kvscope.probe.vocabulary import MOMENT_CODE, UNKNOWN, VALUES

_BEGIN, _FOLDED, _CONNECTOR = (VALUES["step"].index(name) for name in ("begin", "folded", "connector_ns"))


@dataclass(frozen=True)
class Lengths:
    """How long steps took, and how much of that in the connector on the forward thread."""

    process: np.ndarray
    """(n,) index into the events' processes"""
    ns: np.ndarray
    connector_ns: np.ndarray


def step_lengths(events: Events) -> Lengths:
    """Of steps with a forward that told both."""
    at = np.flatnonzero(events.rows["moment"] == MOMENT_CODE["step"])
    end, process = events.rows["t"][at], events.rows["process"][at]
    begin, folded, inside = (events.rows["values"][at, column] for column in (_BEGIN, _FOLDED, _CONNECTOR))
    # A step that ends before it begins tells nothing.
    told = _worked(begin, folded) & (inside != UNKNOWN) & (end >= begin)
    return Lengths(process[told], end[told] - begin[told], inside[told])


@dataclass(frozen=True)
class Spans:
    """When steps with a forward began and ended."""

    process: np.ndarray
    """(n,) index into the events' processes"""
    begin: np.ndarray
    """ns"""
    end: np.ndarray


def step_spans(events: Events) -> Spans:
    """Of those that told both."""
    at = np.flatnonzero(events.rows["moment"] == MOMENT_CODE["step"])
    end, process = events.rows["t"][at], events.rows["process"][at]
    begin, folded = (events.rows["values"][at, column] for column in (_BEGIN, _FOLDED))
    told = _worked(begin, folded) & (end >= begin)
    return Spans(process[told], begin[told], end[told])


def _worked(begin: np.ndarray, folded: np.ndarray) -> np.ndarray:
    """(n,) bool: a step with a forward, which told when it began"""
    return np.asarray((begin != UNKNOWN) & ((folded == UNKNOWN) | (folded == 0)))


def step_begins(events: Events, engine: str, begin: int, end: int) -> list[int]:
    """Instants (ns) within [begin, end] at which steps with work began on the engine, in order."""
    members = [index for index, process in enumerate(events.processes) if process.engine == engine]
    rows = events.rows[(events.rows["moment"] == MOMENT_CODE["step"]) & np.isin(events.rows["process"], members)]
    began = rows["values"][:, _BEGIN]
    inside = np.unique(began[_worked(began, rows["values"][:, _FOLDED]) & (began >= begin) & (began <= end)])
    return [int(t) for t in inside]


def steps_beside(events: Events, split: RequestSplit) -> dict[str, list[int]]:
    """leg -> steps of its engine in the time of the request."""
    times = [stamp.t for stamp in split.stamps]
    if not times:
        return {}
    found = {}
    for leg, engine in (("prefill", split.prefill_engine), ("decode", split.decode_engine)):
        if engine:
            moved = split.moved_ns.get(leg, 0)
            begun = step_begins(events, engine, min(times) - moved, max(times) - moved)
            found[leg] = [t + moved for t in begun]
    return found

"""When each stage was open at each engine: at least one request was in it, on its path or behind it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kvscope.model.requests import RequestSplit, Span
from kvscope.model.splits import Splits
from kvscope.probe.vocabulary import UNKNOWN

TRANSFERRED = "transferred"
ALSO_AT: dict[str, str] = {"notice": "prefill"}
"""A stage is laid at the engine where it ends. Of this one the other may be the cause as well: a completion's
notification leaves when the engine that posted polls."""


@dataclass(frozen=True)
class Opening:
    """One stage of one request, at one engine."""

    engine: str
    stage: str
    begin: int
    end: int
    exposed: bool
    ended_by: str
    """Role of the thread that stamped its end; empty where that was another engine's."""


def openings(splits: Splits, host: str, begin: int, end: int) -> Iterator[Opening]:
    """Those that touch the time from `begin` to `end`, ns, of requests whose engines are of that host."""
    for row in np.flatnonzero(_on(splits, host) & _touching(splits, begin, end)).tolist():
        split = splits[row]
        thread_at = {(stamp.leg, stamp.t): stamp.thread for stamp in split.stamps}
        for span in (*split.path, *split.hidden_spans):
            if span.begin <= end and span.end >= begin:
                yield from _at_engines(split, span, thread_at)


def _on(splits: Splits, host: str) -> np.ndarray:
    here = np.array([engine.host in ("", host) for engine in splits.engines] + [True])  # the last: no engine
    return np.asarray(here[splits.prefill_engine] & here[splits.decode_engine])


def _touching(splits: Splits, begin: int, end: int) -> np.ndarray:
    known = splits.time != UNKNOWN
    first, last = np.where(known, splits.time, end + 1).min(axis=1), np.where(known, splits.time, begin - 1).max(axis=1)
    return np.asarray((first <= end) & (last >= begin))


def _at_engines(split: RequestSplit, span: Span, thread_at: dict[tuple[str, int], str]) -> Iterator[Opening]:
    leg = _ends_at(split, span)
    for each in dict.fromkeys((leg, ALSO_AT.get(span.stage, leg))):
        engine = {"prefill": split.prefill_engine, "decode": split.decode_engine}.get(each, "")
        if engine:
            ended_by = thread_at.get((each, span.end), "") if each == leg else ""
            yield Opening(engine, span.stage, span.begin, span.end, span.exposed, ended_by)


def _ends_at(split: RequestSplit, span: Span) -> str:
    """The leg at which a stage ends. That bytes have moved is nobody's moment: it is told by the engine that posted."""
    pushed = span.ended_by == TRANSFERRED and any(stamp.moment == "matched" for stamp in split.stamps)
    return "prefill" if pushed else span.leg


def covered(times: np.ndarray, spans: list[tuple[int, int]]) -> np.ndarray:
    """(n,) bool: whether each time (rising) lies in [begin, end) of one of the spans at least."""
    steps = np.zeros(len(times) + 1, np.int64)
    if spans:
        edges = np.searchsorted(times, np.array(spans), side="left")
        np.add.at(steps, edges[:, 0], 1)
        np.add.at(steps, edges[:, 1], -1)
    return np.asarray(np.cumsum(steps[:-1]) > 0)


def length(spans: list[tuple[int, int]]) -> int:
    """How long at least one of the spans lasts."""
    total, reached = 0, -(2**63)
    for begin, end in sorted(spans):
        total += max(end - max(begin, reached), 0)
        reached = max(reached, end)
    return total

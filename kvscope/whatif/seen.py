"""The requests of a recording that were served in one mode, and the steps that prefill took after each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from kvscope.analysis.steps import step_spans
from kvscope.model.errors import InputError
from kvscope.model.events import Events
from kvscope.model.graph import NODE
from kvscope.model.splits import Splits
from kvscope.probe.vocabulary import UNKNOWN
from kvscope.whatif.costs import Seen
from kvscope.whatif.mode import MODES, modes

AT_ONCE_NS = 5_000_000
"""A step that begins so soon after another followed it at once: the scheduler runs in between."""


@dataclass(frozen=True)
class Left:
    """Requests of the recording that are not estimated."""

    untimed: int
    """without a TTFT, or with one that no handoff was part of"""
    otherwise: int
    """served in another mode than most"""
    lost: int
    """events that rings had overwritten before they were read"""


def gather_seen(events: Events, splits: Splits, hold_ns: int = 0) -> tuple[Seen, Left]:
    """The requests of the mode that most were served in. InputError: none was handed over."""
    found = modes(splits)
    if not (found >= 0).any():
        raise InputError("no request was handed from prefill to decode and got its first token: nothing to replay")
    commonest = Counter(found[found >= 0].tolist()).most_common(1)[0][0]
    chosen = splits.select(found == commonest)
    left = Left(int((found < 0).sum()), int(((found >= 0) & (found != commonest)).sum()), splits.tally.lost)
    return Seen(chosen, MODES[commonest], hold_ns, next_steps(events, chosen)), left


def next_steps(events: Events, splits: Splits) -> np.ndarray:
    """(n,) ns from the end of each prefill to the end of the step of its engine that began at once; 0 if none did,
    UNKNOWN where no step of the engine was recorded"""
    computed = splits.time[:, NODE["P.computed"]]
    spans = step_spans(events)
    names = np.array([process.engine for process in events.processes], object)[spans.process]
    ns = np.full(len(splits), UNKNOWN)
    for at, engine in enumerate(splits.engines):
        rows, mine = np.flatnonzero(splits.prefill_engine == at), names == engine.engine
        if not len(rows) or not mine.any():
            continue
        order = np.argsort(spans.begin[mine], kind="stable")
        begin, end = spans.begin[mine][order], spans.end[mine][order]
        # The step that computed the prompt may be told to end a little after the prompt was computed.
        after = np.searchsorted(begin, computed[rows])
        there = after < len(begin)
        after = np.minimum(after, len(begin) - 1)
        at_once = there & (begin[after] - computed[rows] <= AT_ONCE_NS)
        ns[rows] = np.where(at_once, end[after] - computed[rows], 0)
    return ns

"""At whose engine each stage ends, so that its time can be laid at a door."""

from __future__ import annotations

import numpy as np

from kvscope.model import graph
from kvscope.model.graph import EDGES, NODE, NODES, STAGE_INDEX
from kvscope.model.splits import Splits
from kvscope.model.stages import STAGES
from kvscope.probe.vocabulary import UNKNOWN

PREFILL, DECODE = 0, 1
_READ_BACK = {NODES[index].name for index in graph.RETURN_READ}
"""A return read's own moments: its stages count where those of the hand-off do."""


def _legs(stage: str) -> frozenset[str]:
    """Legs at whose engines a stage ends; that of a computed moment is the one that posts."""
    ends = {edge.to for edge in EDGES if stage == edge.stage or stage in edge.less} - _READ_BACK
    return frozenset("poster" if NODES[NODE[end]].leg == "none" else NODES[NODE[end]].leg for end in ends)


LEGS_OF_STAGE: dict[str, frozenset[str]] = {stage.name: _legs(stage.name) for stage in STAGES}


def _only(leg: str) -> np.ndarray:
    return np.array([LEGS_OF_STAGE[stage.name] == {leg} for stage in STAGES])


_AT = (_only("prefill"), _only("decode"))
_AT[DECODE][STAGE_INDEX["failed_attempt"]] = True  # of no edge: it ends with the failure of decode's load
_AT_POSTER = _only("poster")
_ON_BOTH = tuple(
    (STAGE_INDEX[edge.stage], NODE[edge.frm], NODE[edge.to])
    for edge in EDGES
    if LEGS_OF_STAGE[edge.stage] == {"prefill", "decode"}
)
"""Stages that each leg has one of, with the moments between which that is."""


def lengths_at(splits: Splits, leg: int) -> np.ndarray:
    """(n, stages) ns, on the path or hidden, of stages that end at the engine of a leg."""
    ns = splits.exposed + splits.hidden
    pushed = splits.shaped("push") | (splits.time[:, NODE["matched"]] != UNKNOWN)
    posts = pushed if leg == PREFILL else ~pushed
    mine = _AT[leg] | (_AT_POSTER & posts[:, None])
    found = np.where(mine, ns, 0)
    for stage, begin, end in _ON_BOTH:
        if (NODES[end].leg == "prefill") == (leg == PREFILL):
            found[:, stage] = _between(splits.time[:, begin], splits.time[:, end])
    return found


def _between(begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    known = (begin != UNKNOWN) & (end != UNKNOWN) & (end >= begin)
    return np.where(known, end - begin, 0)


LAID = frozenset(
    stage.name
    for index, stage in enumerate(STAGES)
    if _AT[PREFILL][index] | _AT[DECODE][index] | _AT_POSTER[index] or index in {stage for stage, _, _ in _ON_BOTH}
)
"""Stages that are laid at an engine's door."""

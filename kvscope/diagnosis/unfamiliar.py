"""What no case explains: stages that grew, requests that hang, failures. Named by stage, and by what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from kvscope.diagnosis import lookalikes as look
from kvscope.diagnosis.baseline import standard_error
from kvscope.diagnosis.evidence import STAGE_NAMES, Evidence
from kvscope.diagnosis.match import COUNT, Match, Measure
from kvscope.diagnosis.texts import MISSING, UNFAMILIAR
from kvscope.diagnosis.thresholds import FEWEST, GROWN, GROWN_LEAST, MOST_OF, RARE, RARE_LEAST, SIGNIFICANT
from kvscope.diagnosis.view import View
from kvscope.model.graph import EDGES, NODES, STAGE_INDEX
from kvscope.model.stages import STAGE, Class
from kvscope.probe.vocabulary import REASONS, UNKNOWN

MOST = 3
"""Stages that are told: what comes after these is small beside them."""


def unfamiliar(view: View, matches: Sequence[Match]) -> list[Match]:
    """Growth, hangs and failures that are in none of the matches."""
    return [*_grown(view, matches), *_hanging(view, matches), *_failing(view, matches)]


def _grown(view: View, matches: Sequence[Match]) -> list[Match]:
    rest = _unexplained(view, matches)
    if len(rest) < FEWEST.value:
        return []
    means = rest.mean(axis=0)
    if view.was is None:
        total = float(view.now.timed.splits.ttft.mean())
        runs = np.array([STAGE[name].cls is Class.COMPUTE_RUN for name in STAGE_NAMES])
        sure = (means >= MOST_OF.value * total) & ~runs
    else:
        order = np.argsort(view.now.timed.when, kind="stable")
        errors = np.hypot(standard_error(rest[order]), view.comparison.errors)
        least = max(GROWN_LEAST.value, GROWN.value * view.comparison.usual_ttft)
        sure = (means >= least) & (means > SIGNIFICANT.value * errors)
    found = sorted(np.flatnonzero(sure).tolist(), key=lambda at: -means[at])[:MOST]
    return [_growth(view, STAGE_NAMES[at], rest[:, at]) for at in found]


def _unexplained(view: View, matches: Sequence[Match]) -> np.ndarray:
    """(timed, stages) f8 ns beyond what is usual, without what matches explain"""
    rest = view.comparison.excess.copy()
    for match in matches:
        columns = [STAGE_INDEX[name] for name in match.claims]
        rest[np.ix_(match.rows[view.timed], columns)] = 0.0
    return rest


def _growth(view: View, stage: str, rest: np.ndarray) -> Match:
    excess = view.spread(rest)
    grown = float(rest.mean())
    others = [
        look.slow_transport(view),
        look.out_of_blocks(view, grown),
        look.router_late(view, grown),
        look.saturated(view, grown),
        look.clock(view, grown),
    ]
    told = {"wire": "slow-transport", "decode_admission": "decode-out-of-blocks", "dispatch": "late-registration",
            "intake": "prefill-saturated", "prefill_queue": "prefill-saturated"}  # fmt: skip
    return Match(
        slug=UNFAMILIAR,
        stage=stage,
        rows=view.timed & (excess > 0),
        excess=excess,
        claims=(stage,),
        measured=(
            view.stage(stage),
            *(view.stage(name) for name in _largest(view, stage)),
            view.measure("prompt tokens", lambda one: one.prompt, COUNT),
        ),
        ruled_out=tuple(one for one in others if one.slug != told.get(stage)),
        detail=f"stage {stage} grew{_side(view, stage)}" if view.was is not None else f"stage {stage} has most of TTFT",
        missing=MISSING[stage],
    )


def _side(view: View, stage: str) -> str:
    """Of stages that both legs have, the leg on which it grew."""
    ends = _ON_BOTH.get(stage)
    if ends is None:
        return ""
    grown = []
    for side in ("P.", "D."):
        was, now = view.both(partial(_between, begin=side + ends[0], end=side + ends[1]))
        grown.append(now - (was or 0.0))
    return " on prefill" if grown[0] > grown[1] else " on decode"


def _between(evidence: Evidence, begin: str, end: str) -> np.ndarray:
    return np.asarray(np.nan_to_num(evidence.between(begin, end)))


_ON_BOTH = {"frontend": ("arrived", "taken"), "intake": ("taken", "queued")}


def _largest(view: View, stage: str) -> list[str]:
    changes = view.comparison.change
    order = np.argsort(-np.abs(changes))
    return [STAGE_NAMES[at] for at in order.tolist() if STAGE_NAMES[at] != stage][:3]


def _hanging(view: View, matches: Sequence[Match]) -> list[Match]:
    rows = view.hung.copy()
    for match in matches:
        rows &= ~match.rows
    if not rows.any():
        return []
    reached = np.where(view.now.splits.time[:, : len(NODES)] != UNKNOWN, np.arange(len(NODES)), -1).max(axis=1)
    found = []
    for node in np.unique(reached[rows]).tolist():
        mine = rows & (reached == node)
        edge = next((edge for edge in EDGES if NODES[node].name == edge.frm), None)
        to = _next(view, mine, node) if edge is not None else ""
        stage = next((e.stage for e in EDGES if e.frm == NODES[node].name and e.to == to), "unattributed")
        found.append(
            Match(
                slug=UNFAMILIAR,
                stage=stage,
                rows=mine,
                excess=np.where(mine, view.waited, 0.0),
                measured=(
                    Measure("requests that wait", None, float(mine.sum()), COUNT),
                    Measure("waited so far, mean", None, float(view.waited[mine].mean())),
                ),
                ruled_out=(look.lost_leg(view, mine), look.expired(view, mine), look.dead_peer(view, mine)),
                detail=f"{stage} never ended: after {NODES[node].name} nothing came",
                missing=f"{to or 'what comes next'}, and why",
            )
        )
    return found


def _next(view: View, rows: np.ndarray, node: int) -> str:
    """The moment that comes after a node where requests of this kind got further; else the first that can."""
    name = NODES[node].name
    push = bool(view.now.pushed[rows].any())
    able = [edge.to for edge in EDGES if edge.frm == name]
    only = {"post_begun"} if push else {"D.handed", "notified"}
    return next((to for to in able if to not in only), able[0] if able else "")


def _failing(view: View, matches: Sequence[Match]) -> list[Match]:
    splits = view.now.splits
    rows = (splits.failure[:, 0] != 0) & (splits.shaped("failed", "failed_recomputed"))
    for match in matches:
        rows &= ~match.rows
    rows &= ~view.hung
    if rows.sum() < max(RARE_LEAST.value, RARE.value * len(splits)):
        return []
    codes, counts = np.unique(splits.failure[rows, 1], return_counts=True)
    code = int(codes[counts.argmax()])
    reason = REASONS[code] if 0 < code < len(REASONS) else "a reason of the engine's own"
    return [
        Match(
            slug=UNFAMILIAR,
            stage="failed_attempt",
            rows=rows,
            excess=np.where(rows & view.timed, view.excess("failed_attempt"), 0.0),
            claims=("failed_attempt",),
            measured=(Measure("requests that failed", None, float(rows.sum()), COUNT),),
            detail=f"failed: {reason}",
            missing="what led to it, in the engine's log",
        )
    ]

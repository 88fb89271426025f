"""The cases put to the evidence: which fit, in the order of what they cost, and what is left that none explains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kvscope.analysis.bands import members
from kvscope.analysis.handles import handle_of
from kvscope.analysis.objectives import Objectives
from kvscope.diagnosis.baseline import Comparison
from kvscope.diagnosis.cases import (
    capacity,
    dispatch,
    handshake,
    identity,
    leases,
    liveness,
    posting,
    transfer,
    waiting_for_steps,
)
from kvscope.diagnosis.evidence import STAGE_NAMES, Evidence
from kvscope.diagnosis.finding import Diagnosis, Finding
from kvscope.diagnosis.match import SHARE, Match, Measure
from kvscope.diagnosis.onset import Onset, onset_of
from kvscope.diagnosis.thresholds import EXPLAINS, TORN
from kvscope.diagnosis.unfamiliar import unfamiliar
from kvscope.diagnosis.unknowns import unknowns
from kvscope.diagnosis.view import View
from kvscope.diagnosis.who import who_of
from kvscope.model.graph import STAGE_INDEX

Case = Callable[[View], Match | None]
SEEN = 3
"""Requests that are named for each finding."""

CASES: tuple[Case, ...] = (
    identity.clock_skew,
    identity.retry_same_id,
    identity.engine_restarted,
    handshake.prefill_dies_at_handshake,
    liveness.write_never_posted,
    liveness.aborted_request_pins_blocks,
    leases.early_push_lease_not_renewed,
    leases.lease_expired_before_read,
    capacity.prefill_queue_behind_early_dispatch,
    dispatch.no_handoff,
    liveness.id_mismatch,
    liveness.registration_never_matched,
    liveness.parked_without_handle,
    identity.prompt_list,
    identity.declined_return_read,
    leases.expired_leases_not_reaped,
    leases.orphaned_prefill,
    capacity.decode_out_of_blocks,
    dispatch.late_registration,
    transfer.slowest_rank,
    posting.too_many_descriptors,
    transfer.transfer_contention,
    transfer.slow_transport,
    posting.writer_starved_of_cpu,
    waiting_for_steps.writer_handed_blocks_late,
    waiting_for_steps.completion_noticed_late,
    capacity.chunked_prefill,
    capacity.prefill_saturated,
    handshake.slow_first_contact,
)
"""In this order a request that waits belongs to the first case that fits: what says most of it comes first."""


def diagnose(
    whole: Evidence,
    comparison: Comparison,
    usual_from: str = "",
    objectives: Objectives | None = None,
    wall: int | None = None,
    first: int | None = None,
) -> Diagnosis:
    """Put the cases to a comparison. whole: the recording that the judged requests are of"""
    view = View(comparison)
    matches = matched(view)
    if [match.slug for match in matches] != ["clock-skew"]:
        matches += unfamiliar(view, matches)
    found = [_finding(whole, view, match) for match in matches]
    found.sort(key=lambda finding: -finding.cost_s)
    now, was = comparison.now, comparison.was
    return Diagnosis(
        findings=tuple(found),
        place=comparison.place,
        ttft=Measure("TTFT", _total(comparison.was_stages), float(comparison.now_stages.sum())),
        judged=len(now),
        timed=len(now.timed),
        usual=None if was is None else len(was.timed),
        usual_from=usual_from,
        stages=_stages(comparison),
        missed=_missed(objectives, comparison),
        hung=int(view.hung.sum()),
        unknown=unknowns(whole, comparison),
        first=int(whole.when.min()) if first is None and len(whole) else first or 0,
        wall=wall,
    )


def matched(view: View) -> list[Match]:
    """The cases that fit. A request without an answer is in one of them only."""
    found: list[Match] = []
    owned = np.zeros(len(view.now), bool)
    clock = identity.clock_skew(view)
    if clock is not None and clock.rows.mean() >= TORN.value:
        return [clock]  # no time of the others means anything
    for case in CASES:
        match = case(view)
        if match is None:
            continue
        mine = match.rows & ~(owned & ~view.timed)
        if not mine.any():
            continue
        if not np.array_equal(mine, match.rows):
            match = replace(match, rows=mine, excess=np.where(mine, match.excess, 0.0))
        owned |= mine & ~view.timed
        found.append(_less(view, match, found))
    return [match for match in found if match.rows.any()]


def _less(view: View, match: Match, before: list[Match]) -> Match:
    """The match without what earlier ones explain of the same stages in the same requests."""
    taken = np.zeros(len(view.now), bool)
    for other in before:
        if set(other.claims) & set(match.claims):
            taken |= other.rows & view.timed
    if not (taken & match.rows).any():
        return match
    mine = match.rows & ~taken
    if match.excess[mine].sum() < EXPLAINS.value * match.excess.sum():
        mine = np.zeros_like(mine)  # what is left of it is the rest of another
    return replace(match, rows=mine, excess=np.where(mine, match.excess, 0.0))


def _finding(whole: Evidence, view: View, match: Match) -> Finding:
    excess = match.excess[view.timed]
    explains = _placed(view.comparison, excess)
    total = float(view.comparison.now_stages.sum()) - _total_or_zero(view.comparison.was_stages)
    cost = float(np.maximum(match.excess, 0.0).sum()) / 1e9
    return Finding(
        match=match,
        explains_ns=explains,
        share=explains / total if total > 0 and explains else None,
        cost_s=cost,
        since=_since(whole, view, match),
        who=who_of(view.now, match),
        see=_handles(view.now, match),
    )


def _placed(comparison: Comparison, values: np.ndarray) -> float:
    """Mean of values (timed,) where TTFT is compared."""
    if not len(values):
        return 0.0
    if not comparison.banded:
        return float(values.mean())
    ttft = comparison.now.timed.splits.ttft
    low, high = members(len(ttft), 95.0)
    return float(values[np.argsort(ttft, kind="stable")[low:high]].mean())


def _since(whole: Evidence, view: View, match: Match) -> Onset:
    """When the stage rose; of requests that wait, when the first of them came."""
    started = whole.started
    grown = match.rows & view.timed
    if not grown.any() or not (match.excess[grown] > 0).any():
        return onset_of(view.now.when, match.rows.astype(float), 0.5, started)
    timed = whole.timed
    values = timed.stage(match.stage)
    high = float(view.now.stage(match.stage)[grown].mean())
    low = float(view.was.timed.stage(match.stage).mean()) if view.was is not None else high - float(
        match.excess[grown].mean()
    )  # fmt: skip
    return onset_of(timed.when, values, (max(low, 0.0) + high) / 2, started)


def _handles(now: Evidence, match: Match) -> tuple[str, ...]:
    rows = np.flatnonzero(match.rows)
    order = rows[np.argsort(-match.excess[rows], kind="stable")[:SEEN]]
    return tuple(handle_of(now.splits, int(row)) for row in order)


def _total(stages: np.ndarray | None) -> float | None:
    return None if stages is None else float(stages.sum())


def _total_or_zero(stages: np.ndarray | None) -> float:
    return 0.0 if stages is None else float(stages.sum())


def _stages(comparison: Comparison) -> tuple[Measure, ...]:
    was, now = comparison.was_stages, comparison.now_stages
    return tuple(
        Measure(name, None if was is None else float(was[at]), float(now[at]))
        for name, at in ((name, STAGE_INDEX[name]) for name in STAGE_NAMES)
        if now[at] or (was is not None and was[at])
    )


def _missed(objectives: Objectives | None, comparison: Comparison) -> Measure | None:
    if objectives is None or objectives.ttft_ns is None:
        return None
    limit = objectives.ttft_ns
    shares = [
        None if one is None or not len(one.timed) else float((one.timed.splits.ttft > limit).mean())
        for one in (comparison.was, comparison.now)
    ]
    return Measure("SLO misses", shares[0], shares[1] or 0.0, SHARE)

"""Findings as sentences. Each is measured, or says that it is not."""

from __future__ import annotations

from kvscope.analysis.headline import Leader
from kvscope.analysis.overlap import Overlap, Slack
from kvscope.analysis.render.amounts import Milliseconds, count, share
from kvscope.model.graph import STAGE_INDEX
from kvscope.model.stages import Class

WORTH_SAYING = 0.05
"""Share of a band's TTFT below which hidden prefill changes no conclusion."""


def leader(found: Leader, scale: Milliseconds) -> str:
    """Who leads, or between whom that is undecided."""
    band = found.band
    whole = f"{scale.of(band.mean_ns)} ms at {band.name}"
    stage = f"{found.stage} {scale.of(found.stage_ns)}"
    if found.decided:
        low, high = band.bounds_ns(found.classes[0])
        return f"{found.classes[0].upper()} leads TTFT: {scale.between(low, high)} of {whole}, most of it in {stage}."
    rivals = " and ".join(f"{cls} ({scale.between(*band.bounds_ns(cls))})" for cls in found.classes)
    undecided = scale.of(band.class_ns(Class.UNDETERMINED))
    return f"UNDECIDED between {rivals} of {whole}: {undecided} ms may belong to either. The largest stage is {stage}."


def behind(found: Leader, scale: Milliseconds) -> str:
    """Where coordination lies on the path and prefill ran behind it: how little of it an earlier registration wins."""
    band = found.band
    prefill = float(band.hidden[STAGE_INDEX["prefill_run"]])
    if Class.COORDINATION not in found.classes or prefill < WORTH_SAYING * band.mean_ns:
        return ""
    return (
        f"Prefill ran behind it ({scale.of(prefill)} ms of prefill_run hidden): an earlier registration wins at most "
        f"{scale.of(band.late_ns)} ms there."
    )


def overlap(found: Overlap) -> str:
    """Whether push overlapped."""
    if not found.pushes:
        return "Pull: the transfer starts once decode was called; nothing is registered ahead." if found.pulls else ""
    early = f"{share(found.overlapped, found.pushes)} of {count(found.pushes, 'push', 'pushes')}"
    if found.overlapped == found.pushes:
        return f"Push overlapped: the registration was there before the blocks were staged in {early}."
    if found.overlapped == 0:
        return (
            f"Push, but nothing overlapped: registered before staged in 0% of {count(found.pushes, 'push', 'pushes')}."
        )
    return f"Push overlapped in part: registered before staged in {early}."


def mechanism(found: Overlap) -> str:
    """Why registrations were late."""
    if not found.late:
        return ""
    if found.told == found.late:
        return (
            "The router calls decode after prefill returns (decode was given prefill's request id), so finished KV "
            "waits for decode to reserve and register."
        )
    rest = found.late - found.told
    late = f", most of it in {found.late_stage}" if found.late_stage else ""
    told = f"{found.told:,} because the router called decode after prefill returned, " if found.told else ""
    return f"Of {found.late:,} late registrations: {told}{rest:,} though decode was called early{late}."


def hypothetical(found: Overlap, scale: Milliseconds) -> str:
    """What an earlier registration could have won at most; only where that is bounded by what was measured."""
    staging = [slack for slack in found.slacks if slack.branch == "staging"]
    if not staging or not found.late:
        return ""
    return (
        f"Registered in time, the WRITE could have started {scale.between(*staging[0].p50_ns)} ms earlier at p50 "
        f"({count(staging[0].requests, 'request')}). TTFT falls by that much at most; waiting for step boundaries "
        "may take some of it back."
    )


def slack(found: Slack, scale: Milliseconds) -> str:
    """How much room a hidden branch had."""
    return (
        f"hidden in {count(found.requests, 'request')}: it could have come {scale.between(*found.p50_ns)} ms later "
        f"at p50, {scale.of(found.least_ns)} at the tightest, without moving the first token"
    )

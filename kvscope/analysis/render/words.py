"""Findings as sentences. Each is measured, or says that it is not."""

from __future__ import annotations

from kvscope.analysis.bands import TRANSFER_OR_NOT, Band
from kvscope.analysis.headline import Leader
from kvscope.analysis.overlap import Overlap, Slack
from kvscope.analysis.render.amounts import Milliseconds, share
from kvscope.model.counting import count, most
from kvscope.model.graph import STAGE_INDEX
from kvscope.model.stages import STAGES, Class

WORTH_SAYING = 0.05
"""Share of a band's TTFT below which hidden prefill changes no conclusion."""
MOVING_OR_NOT = tuple(STAGES[index].name for index in TRANSFER_OR_NOT)


def leader(found: Leader, scale: Milliseconds) -> str:
    """Who leads, or between whom that is undecided, and by what."""
    band = found.band
    whole = f"{scale.of(band.mean_ns)} ms (mean around {band.name})"
    stage = f"{found.stage} {scale.of(found.stage_ns)}"
    if not found.decided:
        rivals = " or ".join(f"{cls} ({scale.between(*band.bounds_ns(cls))})" for cls in found.classes)
        said = [f"UNDECIDED what leads the {whole}: {rivals}.", *_open(band, scale), f"The largest stage is {stage}."]
        return " ".join(said)
    (cls,) = found.classes
    low, high = band.bounds_ns(cls)
    part = f"{most(found.stage_ns, high)} of it in {stage}"
    if cls is Class.UNDETERMINED:
        told = f"UNDETERMINED time leads TTFT: {scale.of(high)} of {whole}, {part}."
        return " ".join([told, *_open(band, scale)])
    return f"{cls.upper()} leads TTFT: {scale.between(low, high)} of {whole}, {part}."


def _open(band: Band, scale: Milliseconds) -> list[str]:
    """The stages that leave it open, and what it is that nobody knows of them."""
    told = []
    shared = [(name, ns) for name in MOVING_OR_NOT if (ns := float(band.exposed[STAGE_INDEX[name]]))]
    if shared:
        stages = " and ".join(f"{name} ({scale.of(ns)})" for name, ns in shared)
        told.append(f"In {stages} nobody can tell whether bytes still moved (transfer) or not (coordination).")
    loose = float(band.exposed[STAGE_INDEX["unattributed"]])
    if loose:
        told.append(f"No stage explains {scale.of(loose)} ms: they may belong to any class.")
    return told


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
    late = f", {most(found.late_share, 1)} of it in {found.late_stage}" if found.late_stage else ""
    told = f"{found.told:,} because the router called decode after prefill returned, " if found.told else ""
    return f"Of {count(found.late, 'late registration')}: {told}{rest:,} though decode was called early{late}."


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

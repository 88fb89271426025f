"""The report as one JSON document. `docs/json.md` is the schema; VERSION changes when a field's meaning does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from kvscope.analysis.bands import CLASSES, Band
from kvscope.analysis.condition import Condition
from kvscope.analysis.headline import Leader
from kvscope.analysis.holding import Held
from kvscope.analysis.objectives import Attainment
from kvscope.analysis.overlap import Overlap
from kvscope.analysis.price import Price
from kvscope.analysis.setup import Setup
from kvscope.analysis.summary import Summary
from kvscope.model.requests import RequestSplit, Span
from kvscope.model.splits import Splits
from kvscope.model.stages import STAGE, STAGES

VERSION = 1

Json = dict[str, Any]


def report_document(summary: Summary, splits: Splits) -> Iterator[str]:
    """The document in pieces, one request per line: it may be larger than fits comfortably in memory."""
    head = json.dumps(summary_object(summary), allow_nan=False)
    yield f'{{"version": {VERSION}, "summary": {head}, "requests": ['
    for number, split in enumerate(splits):
        yield ("," if number else "") + "\n" + json.dumps(request_object(split), allow_nan=False)
    yield "\n]}\n"


def request_document(split: RequestSplit) -> str:
    """A document of one request, with every moment; without a summary."""
    found = request_object(split) | {"moments": [asdict(stamp) for stamp in split.stamps]}
    return json.dumps({"version": VERSION, "requests": [found]}, allow_nan=False) + "\n"


def request_object(split: RequestSplit) -> Json:
    """One request. What is not known is null, never zero."""
    return {
        "request": split.request,
        "peer_request": split.peer_request or None,
        "shape": split.shape,
        "state": str(split.state),
        "complete": split.complete,
        "missing": list(split.missing),
        "origin_ns": split.origin,
        "first_token_ns": split.first_token,
        "ttft_ns": split.ttft_ns,
        "path": [_span(span) for span in split.path],
        "hidden_path": [_span(span) for span in split.hidden_spans],
        "exposed": split.exposed,
        "hidden": split.hidden,
        "slack_ns": {branch: list(bounds) for branch, bounds in split.slack_ns.items()},
        "class_ns": {str(cls): list(bounds) for cls, bounds in split.class_ns.items()},
        "coordination_ns": list(split.coordination_ns),
        "transfer_bounds_ns": list(split.transfer_bounds_ns),
        "dispatch_parts": split.dispatch_parts,
        "knew_peer": split.knew_peer,
        **_price_of(split),
        **_facts_of(split),
    }


def _span(span: Span) -> Json:
    return {
        "stage": span.stage,
        "class": str(STAGE[span.stage].cls),
        "ns": span.ns,
        "begin_ns": span.begin,
        "end_ns": span.end,
        "ended_by": span.ended_by,
        "leg": span.leg,
        "step": span.step,
        "bound_ns": span.bound_ns,
        "uncertain": span.uncertain,
    }


def _price_of(split: RequestSplit) -> Json:
    return {
        "reserved_idle_ns": split.reserved_idle_ns,
        "reserved_blocks": split.reserved_blocks,
        "pinned_ns": split.pinned_ns,
        "pinned_blocks": split.pinned_blocks,
    }


def _facts_of(split: RequestSplit) -> Json:
    return {
        "prefill_engine": split.prefill_engine or None,
        "decode_engine": split.decode_engine or None,
        "prompt_tokens": split.prompt_tokens,
        "cached_tokens": split.cached_tokens,
        "output_tokens": split.output_tokens,
        "transfer_bytes": split.transfer_bytes,
        "descriptors": split.descriptors,
        "ranks": split.ranks,
        "rank_spread_ns": split.rank_spread_ns,
        "slowest_rank": None if split.slowest_rank is None else list(split.slowest_rank),
        "post_thread": None if split.post_thread == "unknown" else split.post_thread,
        "tpot_ns": split.tpot_ns,
        "largest_gap_ns": split.largest_gap_ns,
        "finish_reason": split.finish_reason or None,
        "failure": split.failure or None,
        "last_moment": split.last_moment,
        "age_ns": split.age_ns,
        "idle_ns": split.idle_ns,
        "marks": list(split.marks),
        "clock_bound_ns": split.clock_bound_ns,
    }


def summary_object(summary: Summary) -> Json:
    """The fleet."""
    return {
        "condition": _condition(summary.condition),
        "notes": list(summary.notes),
        "setup": _setup(summary.setup),
        "pairs": [{"prefill": p, "decode": d, "requests": n} for p, d, n in summary.pairs],
        "bands": [_band(band) for band in summary.bands],
        "leaders": [_leader(leader) for leader in summary.leaders],
        "overlap": _overlap(summary.overlap),
        "transfers": None if summary.transfers is None else asdict(summary.transfers),
        "price": _price(summary.price),
        "running": asdict(summary.running),
        "slo": None if summary.attainment is None else _attainment(summary.attainment),
        "one_legged_stages_ns": dict(summary.one_legged_stages),
        "slowest": [{"handle": handle, "request": split.request} for handle, split in summary.slowest],
    }


def _condition(found: Condition) -> Json:
    return {
        "requests": found.requests,
        "timed": found.timed,
        "seconds": found.seconds,
        "states": {str(state): n for state, n in found.states.items()},
        "complete_shapes": dict(found.shapes),
        "missing": dict(found.missing),
        "one_legged": dict(found.one_legged),
        "unaligned": {where: len(requests) for where, requests in found.unaligned},
        "not_instrumented": dict(found.dark),
        "unfinished": asdict(found.waiting) | {"last_moments": dict(found.waiting.last_moments)},
        "failures": dict(found.failures),
        "marks": dict(found.marks),
        "tally": asdict(found.tally),
        "clocks": asdict(found.clocks) | {"uncertain": dict(found.clocks.uncertain)},
    }


def _setup(setup: Setup) -> Json:
    return {
        "facts": {name: {value: list(who) for value, who in fact.values} for name, fact in setup.facts.items()},
        "differences": [fact.name for fact in setup.differences],
        "routers": list(setup.routers),
        "engines": list(setup.engines),
        "silent": list(setup.silent),
        "hosts": list(setup.hosts),
    }


def _band(band: Band) -> Json:
    return {
        "name": band.name,
        "percentile_ns": band.percentile_ns,
        "requests": band.count,
        "low_ns": band.low_ns,
        "high_ns": band.high_ns,
        "mean_ns": band.mean_ns,
        "late_ns": band.late_ns,
        "stages": _named(band.exposed),
        "hidden": _named(band.hidden),
        "classes": {str(cls): band.class_ns(cls) for cls in CLASSES},
        "class_bounds": {str(cls): list(band.bounds_ns(cls)) for cls in CLASSES},
    }


def _named(ns: np.ndarray) -> dict[str, float]:
    return {stage.name: float(value) for stage, value in zip(STAGES, ns, strict=True) if value}


def _leader(leader: Leader) -> Json:
    return {
        "band": leader.band.name,
        "decided": leader.decided,
        "classes": [str(cls) for cls in leader.classes],
        "stage": leader.stage,
        "stage_ns": leader.stage_ns,
    }


def _overlap(found: Overlap) -> Json:
    return {
        "pushes": found.pushes,
        "registered_before_staged": found.overlapped,
        "late_told_by_router": found.told,
        "late_stage": found.late_stage or None,
        "pulls": found.pulls,
        "coordination_exposed_ns": list(found.exposed_ns),
        "coordination_hidden_ns": found.hidden_ns,
        "slack": {
            slack.branch: {"requests": slack.requests, "p50_ns": list(slack.p50_ns), "least_ns": slack.least_ns}
            for slack in found.slacks
        },
    }


def _price(price: Price) -> Json:
    return asdict(price) | {"reserved": _held(price.reserved), "pinned": _held(price.pinned)}


def _held(held: Held) -> Json:
    return asdict(held) | {"engine_equivalents": held.equivalents}


def _attainment(found: Attainment) -> Json:
    return asdict(found) | {"goodput": found.goodput}

"""All that a fleet's report says, computed once from its splits; the renderer and the document only show it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvscope.analysis.bands import Band, gather_bands, percentile_of
from kvscope.analysis.condition import Condition, gather_condition
from kvscope.analysis.handles import handle_of
from kvscope.analysis.headline import Leader, leading
from kvscope.analysis.objectives import Attainment, Objectives, attained
from kvscope.analysis.overlap import Overlap, gather_overlap, late_by
from kvscope.analysis.price import Price, gather_price
from kvscope.analysis.setup import Setup, gather_setup
from kvscope.analysis.transfers import Transfers, gather_transfers
from kvscope.model.counting import count
from kvscope.model.events import Events
from kvscope.model.requests import RequestSplit, State
from kvscope.model.splits import Splits
from kvscope.model.stages import STAGES
from kvscope.probe.vocabulary import UNKNOWN

SLOWEST = 5


@dataclass(frozen=True)
class Running:
    """The answer after its first token, of finished requests."""

    requests: int
    tpot_ns: dict[str, float]
    """`p50`, `p95`, `p99`; empty of none"""
    gap_ns: dict[str, float]
    """largest gap between tokens, likewise"""


@dataclass(frozen=True)
class Summary:
    """A fleet over a stretch of time."""

    condition: Condition
    setup: Setup
    pairs: tuple[tuple[str, str, int], ...]
    """(prefill engine, decode engine, complete requests), most first"""
    bands: tuple[Band, ...]
    leaders: tuple[Leader, ...]
    """Of the slow requests, then of the median."""
    overlap: Overlap
    transfers: Transfers | None
    price: Price
    running: Running
    attainment: Attainment | None
    slowest: tuple[tuple[str, RequestSplit], ...]
    """(handle to find it by, request), slowest first"""
    one_legged_stages: tuple[tuple[str, float], ...]
    """(stage, mean ns) of the legs seen alone, on their own path; in the table's order"""
    notes: tuple[str, ...]
    """What reading the sources had to say."""


def gather_summary(
    events: Events,
    splits: Splits,
    objectives: Objectives | None = None,
    slowest: int = SLOWEST,
    notes: tuple[str, ...] = (),
) -> Summary:
    """Summarise `splits`, which were made from `events`."""
    rows = np.flatnonzero(splits.timed)
    timed = splits.select(rows)
    condition = gather_condition(splits)
    bands = gather_bands(timed.ttft, timed.exposed, timed.hidden, late_by(timed))
    order = rows[np.argsort(-timed.ttft, kind="stable")[:slowest]]
    return Summary(
        condition=condition,
        setup=gather_setup(events.processes),
        pairs=_pairs(timed),
        bands=bands,
        leaders=leading(bands),
        overlap=gather_overlap(timed),
        transfers=gather_transfers(timed),
        price=gather_price(events, splits),
        running=_running(timed),
        attainment=None if objectives is None else _attainment(objectives, splits, timed, condition.seconds),
        slowest=tuple((handle_of(splits, int(row)), splits[int(row)]) for row in order),
        one_legged_stages=_one_legged(splits),
        notes=notes,
    )


def latest(splits: Splits, ns: int) -> Splits:
    """Requests whose first token, or else whose last moment, lies in the last `ns`; and all that are unfinished."""
    answered = (splits.first_token != UNKNOWN) & ~splits.marked("unaligned")
    when = np.where(answered, splits.first_token, splits.last_moment[:, 2])
    return splits.select((when >= splits.now - splits.behind - ns) | splits.in_state(State.UNFINISHED))


def without(splits: Splits, text: str) -> tuple[Splits, str]:
    """The requests whose id does not hold `text`, and a sentence that says how many do."""
    kept = np.ones(len(splits), bool)
    kept[splits.find(text)] = False
    left_out = len(splits) - int(kept.sum())
    return splits.select(kept), f"{count(left_out, 'request')} with {text!r} in the id left out"


def _pairs(timed: Splits) -> tuple[tuple[str, str, int], ...]:
    engines = len(timed.engines) + 1  # and none, -1
    codes = (timed.prefill_engine + 1) * engines + timed.decode_engine + 1
    counts = np.bincount(codes)
    named = [
        (_name(timed, code // engines - 1), _name(timed, code % engines - 1), int(counts[code]))
        for code in np.flatnonzero(counts).tolist()
    ]
    return tuple(sorted(named, key=lambda pair: (-pair[2], pair)))


def _name(timed: Splits, engine: int) -> str:
    return timed.engines[engine].engine if engine >= 0 else ""


def _percentiles(values: np.ndarray) -> dict[str, float]:
    return {f"p{p}": percentile_of(values, p) for p in (50, 95, 99)} if len(values) else {}


def _running(timed: Splits) -> Running:
    tpot = timed.tpot[~np.isnan(timed.tpot)]
    gaps = timed.largest_gap[timed.largest_gap != UNKNOWN]
    return Running(len(tpot), _percentiles(tpot), _percentiles(gaps))


def _attainment(objectives: Objectives, splits: Splits, timed: Splits, seconds: float) -> Attainment:
    overdue = 0
    if objectives.ttft_ns is not None:
        waiting = splits.in_state(State.UNFINISHED) & (splits.first_token == UNKNOWN)
        overdue = int((splits.age[waiting] > objectives.ttft_ns).sum())
    failed = splits.shaped("failed") & ~splits.in_state(State.UNFINISHED)
    return attained(objectives, timed.ttft, timed.tpot, int(failed.sum()), overdue, seconds)


def _one_legged(splits: Splits) -> tuple[tuple[str, float], ...]:
    rows = splits.exposed[splits.in_state(State.ONE_LEGGED)]
    if not len(rows):
        return ()
    means = rows.mean(axis=0)
    return tuple((stage.name, float(ns)) for stage, ns in zip(STAGES, means, strict=True) if ns)

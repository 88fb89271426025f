"""What early commitment cost: blocks held empty, blocks pinned, a decoder chosen on old news, time taken from steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kvscope.analysis.bands import percentile_of
from kvscope.analysis.condition import seconds_seen
from kvscope.model.events import Events, Process
from kvscope.model.graph import NODE, STAGE_INDEX
from kvscope.model.requests import State
from kvscope.model.splits import Splits
from kvscope.probe.vocabulary import MOMENT_CODE, THREADS, UNKNOWN, VALUES


@dataclass(frozen=True)
class Held:
    """Blocks that were held and could do nothing."""

    requests: int
    p50_ns: float | None
    """median time held of those that were let go"""
    block_s: float | None
    """block-seconds of all; None where no request told its blocks"""
    still: int
    """of the requests, those that hold theirs at the end: counted up to there"""
    capacity: float | None
    """share of the engines' block-seconds in the time seen; None where an engine has not told its KV blocks"""
    engines: int
    """engines that held them"""

    @property
    def equivalents(self) -> float | None:
        """How many whole engines that is."""
        return None if self.capacity is None else self.capacity * self.engines


@dataclass(frozen=True)
class Regret:
    """How another decode engine stood when prefill finished."""

    decoders: int
    """decode engines that told their load"""
    judged: int
    """requests for which load was known on the committed and on another engine"""
    regretted: int
    """another engine had fewer waiting"""
    waiting_p50: float | None
    """of those, how many fewer, at the median"""


@dataclass(frozen=True)
class Posting:
    """Where transfers were prepared and submitted."""

    thread: str
    requests: int
    mean_ns: float
    """`prepare` and `submit` together"""


@dataclass(frozen=True)
class StepShare:
    """The connector's part of the time of an engine's steps, on the forward thread."""

    engine: str
    steps: int
    share: float


@dataclass(frozen=True)
class Price:
    """The other side of the ledger."""

    reserved: Held
    """the decode engines' blocks, from `reserved` to `transferred`"""
    pinned: Held
    """the prefill engines' blocks, from `computed` to `released`"""
    regret: Regret
    posting: tuple[Posting, ...]
    writer_wake_ns: tuple[float, float] | None
    """p50 and p95, on the path or hidden; None without pushes"""
    connector: tuple[StepShare, ...]


def gather_price(events: Events, splits: Splits) -> Price:
    """Add it up over all requests, whether complete or not."""
    blocks = kv_blocks(events.processes)
    return Price(
        reserved=_held(splits, "D.reserved", splits.reserved_idle, splits.reserved_blocks, blocks, "decode_engine"),
        pinned=_held(splits, "P.computed", splits.pinned, splits.pinned_blocks, blocks, "prefill_engine"),
        regret=_regret(events, splits),
        posting=_posting(splits.select(splits.timed)),
        writer_wake_ns=_writer_wake(splits.select(splits.timed & splits.shaped("push"))),
        connector=_connector(events),
    )


def kv_blocks(processes: Iterable[Process]) -> dict[str, int]:
    """engine -> KV blocks, where told"""
    return {
        process.engine: process.started["kv_blocks"]
        for process in processes
        if isinstance(process.started.get("kv_blocks"), int)
    }


def _held(
    splits: Splits, since: str, ns: np.ndarray, count: np.ndarray, kv: dict[str, int], engine_column: str
) -> Held:
    begun = splits.time[:, NODE[since]]
    still = (ns == UNKNOWN) & (begun != UNKNOWN) & splits.in_state(State.UNFINISHED)
    gone = ns != UNKNOWN
    length = np.where(still, splits.now - begun, np.where(gone, ns, 0))
    counted = (still | gone) & (count != UNKNOWN)
    area = float((length[counted] / 1e9 * count[counted]).sum()) if counted.any() else None
    column = getattr(splits, engine_column)[still | gone]
    engines = {splits.engines[index].engine for index in np.unique(column[column >= 0]).tolist()}
    room = sum(kv[engine] for engine in engines) if engines and engines <= kv.keys() else 0
    seconds = seconds_seen(splits)
    return Held(
        requests=int((still | gone).sum()),
        p50_ns=percentile_of(ns[gone], 50) if gone.any() else None,
        block_s=area,
        still=int(still.sum()),
        capacity=area / (room * seconds) if area is not None and room and seconds else None,
        engines=len(engines),
    )


def _regret(events: Events, splits: Splits) -> Regret:
    """Waiting requests on each decode engine at the instant prefill finished."""
    chosen = splits.decode_engine
    decoders = sorted({splits.engines[index].engine for index in np.unique(chosen[chosen >= 0]).tolist()})
    loads = {engine: found for engine in decoders if len((found := _waiting_on(events, engine))[0])}
    computed = splits.time[:, NODE["P.computed"]]
    rows = np.flatnonzero((computed != UNKNOWN) & (chosen >= 0))
    if len(loads) < 2 or not len(rows):
        return Regret(len(loads), 0, 0, None)
    waiting = np.stack([_at(*load, computed[rows]) for load in loads.values()])
    names = list(loads)
    own = np.array([names.index(name) if (name := splits.engines[e].engine) in loads else -1 for e in chosen[rows]])
    mine = np.where(own >= 0, waiting[own, np.arange(len(rows))], np.nan)
    waiting[own[own >= 0], np.flatnonzero(own >= 0)] = np.nan
    known = ~np.isnan(mine) & ~np.isnan(waiting).all(axis=0)
    fewer = mine[known] - np.nanmin(waiting[:, known], axis=0) if known.any() else np.empty(0)
    worse = fewer[fewer > 0]
    return Regret(len(loads), int(known.sum()), len(worse), percentile_of(worse, 50) if len(worse) else None)


def _waiting_on(events: Events, engine: str) -> tuple[np.ndarray, np.ndarray]:
    rows = _rows_of(events, "load", engine)
    rows = rows[np.argsort(rows["t"], kind="stable")]
    return rows["t"], rows["values"][:, VALUES["load"].index("waiting")]


def _rows_of(events: Events, moment: str, engine: str) -> np.ndarray:
    members = [index for index, process in enumerate(events.processes) if process.engine == engine]
    rows = events.rows
    return np.asarray(rows[(rows["moment"] == MOMENT_CODE[moment]) & np.isin(rows["process"], members)])


def _at(times: np.ndarray, values: np.ndarray, when: np.ndarray) -> np.ndarray:
    """The value that held at each instant; NaN before the first."""
    position = np.searchsorted(times, when, "right") - 1
    return np.asarray(np.where(position >= 0, values[np.maximum(position, 0)].astype(float), np.nan))


def _posting(timed: Splits) -> tuple[Posting, ...]:
    post = timed.stage("prepare") + timed.stage("submit")
    sent = timed.ranks > 0
    kinds = np.unique(timed.post_thread[sent]).tolist()
    groups = [(THREADS[code], sent & (timed.post_thread == code)) for code in kinds]
    return tuple(Posting(name, int(rows.sum()), float(post[rows].mean())) for name, rows in groups)


def _writer_wake(pushes: Splits) -> tuple[float, float] | None:
    if not len(pushes):
        return None
    column = STAGE_INDEX["writer_wake"]
    wake = pushes.exposed[:, column] + pushes.hidden[:, column]
    return percentile_of(wake, 50), percentile_of(wake, 95)


def _connector(events: Events) -> tuple[StepShare, ...]:
    shares = []
    for engine in sorted({process.engine for process in events.processes}):
        rows = _rows_of(events, "step", engine)
        begin, inside, folded = (
            rows["values"][:, VALUES["step"].index(n)] for n in ("begin", "connector_ns", "folded")
        )
        told = (begin != UNKNOWN) & (inside != UNKNOWN) & ((folded == UNKNOWN) | (folded == 0))
        told &= rows["t"] >= begin  # a step that ends before it begins tells nothing
        spent = int((rows["t"][told] - begin[told]).sum())
        if spent:
            shares.append(StepShare(engine, int(told.sum()), int(inside[told].sum()) / spent))
    return tuple(shares)

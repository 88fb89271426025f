"""What early commitment cost: blocks held empty, blocks pinned, a decoder chosen on old news, time taken from steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from kvscope.analysis.bands import percentile_of
from kvscope.analysis.holding import PINNED, RESERVED, Held, gather_held
from kvscope.analysis.steps import step_lengths
from kvscope.core.legs import within_bounds
from kvscope.model.events import Events, Process
from kvscope.model.graph import NODE, STAGE_INDEX
from kvscope.model.splits import Splits
from kvscope.probe.vocabulary import MOMENT_CODE, THREADS, UNKNOWN, VALUES


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

    @property
    def told(self) -> bool:
        """Whether it is known which thread it was."""
        return self.thread != THREADS[0]


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
    events = replace(events, rows=within_bounds(events)[0])
    blocks = kv_blocks(events.processes)
    return Price(
        reserved=gather_held(splits, RESERVED, blocks),
        pinned=gather_held(splits, PINNED, blocks),
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


def _regret(events: Events, splits: Splits) -> Regret:
    """Waiting requests on each decode engine at the instant prefill finished; judged by one clock only."""
    chosen = splits.decode_engine
    decoders = sorted({splits.engines[index].engine for index in np.unique(chosen[chosen >= 0]).tolist()})
    loads = _waiting(events, decoders)
    computed = splits.time[:, NODE["P.computed"]]
    rows = np.flatnonzero((computed != UNKNOWN) & (chosen >= 0))
    several_clocks = len({process.host for process in events.processes} - {""}) > 1
    if len(loads) < 2 or not len(rows) or several_clocks:
        return Regret(len(loads), 0, 0, None)
    waiting = np.stack([_at(*load, computed[rows]) for load in loads.values()])
    place = {name: index for index, name in enumerate(loads)}
    own = np.array([place.get(engine.engine, -1) for engine in splits.engines], int)[chosen[rows]]
    mine = np.where(own >= 0, waiting[own, np.arange(len(rows))], np.nan)
    waiting[own[own >= 0], np.flatnonzero(own >= 0)] = np.nan
    known = ~np.isnan(mine) & ~np.isnan(waiting).all(axis=0)
    fewer = mine[known] - np.nanmin(waiting[:, known], axis=0) if known.any() else np.empty(0)
    worse = fewer[fewer > 0]
    return Regret(len(loads), int(known.sum()), len(worse), percentile_of(worse, 50) if len(worse) else None)


def _waiting(events: Events, engines: list[str]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """engine -> times of its loads, and the waiting requests of each; engines that told none are left out"""
    loads = events.rows[events.rows["moment"] == MOMENT_CODE["load"]]
    loads = loads[np.argsort(loads["t"], kind="stable")]
    number = {engine: index for index, engine in enumerate(engines)}
    numbers = np.array([number.get(process.engine, -1) for process in events.processes], int)[loads["process"]]
    waiting = loads["values"][:, VALUES["load"].index("waiting")]
    rows = {engine: np.flatnonzero(numbers == index) for engine, index in number.items()}
    return {engine: (loads["t"][mine], waiting[mine]) for engine, mine in rows.items() if len(mine)}


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
    engines = sorted({process.engine for process in events.processes})
    number = {name: index for index, name in enumerate(engines)}
    found = step_lengths(events)
    engine = np.array([number[process.engine] for process in events.processes], int)[found.process]
    steps = np.bincount(engine, minlength=len(engines))
    spent, inside = (np.bincount(engine, ns, len(engines)) for ns in (found.ns, found.connector_ns))
    told = np.flatnonzero(spent).tolist()
    return tuple(StepShare(engines[at], int(steps[at]), float(inside[at] / spent[at])) for at in told)

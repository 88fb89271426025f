"""Engines that are not like their peers: in a fleet of a hundred, the ones worth a look.

An engine is odd if it lies further from the median of its role than engines usually do (the median absolute
deviation), further than a floor below which nobody cares, and further than its own measurement is uncertain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from kvscope.analysis.price import kv_blocks
from kvscope.analysis.setup import label_of
from kvscope.analysis.steps import step_lengths
from kvscope.live.enginefigures import Load, waits
from kvscope.live.grouping import grouped_mean, grouped_percentile, grouped_sum
from kvscope.live.roster import Roster, Side
from kvscope.live.seats import LEGS, Seats
from kvscope.live.snapshot import Snapshot

PEERS = 2
"""Others of the same role that it takes: of two that differ nobody knows which one is odd."""
DEVIATIONS = 5.0
"""Standard deviations, told by the median absolute deviation: of a hundred alike, chance puts none so far off."""
DOUBT = 4.0
"""Standard errors of the engine's own figure: three would name one of a hundred alike every few screens."""
TO_SIGMA = 1.4826
"""Median absolute deviation to standard deviation, where values are spread normally."""
FEWEST = 8
"""Steps or requests, below which a figure of them says nothing."""
RECENT_NS = 15_000_000_000
"""Steps of the last while are enough to say who is odd now, and few enough to be looked at four times a second."""

TIME, SHARE, COUNT = "time", "share", "count"
ERROR_OF = {50: 1.253, 95: 2.113}
"""Standard error of a percentile, in those of the mean, where values are spread normally."""
Loads = Mapping[int, Load]
"""engine -> what it told last"""
Figures = tuple[np.ndarray, np.ndarray]
"""(engines,) values, NaN where not known; (engines,) their standard errors"""


@dataclass(frozen=True)
class Rule:
    """A figure in which engines of a role should be alike."""

    name: str
    unit: str
    """TIME (ns), SHARE or COUNT"""
    roles: tuple[str, ...]
    of: Callable[[Snapshot, Seats, Loads], Figures]
    high: bool
    """whether more is worse; else less is"""
    least: float
    """the difference that matters, in the figure's unit,"""
    relative: float
    """and as a share of the peers' figure"""
    only_below: float
    """of figures of which less is worse: what is above this is no trouble, whatever peers have"""
    reason: str


@dataclass(frozen=True)
class Oddity:
    """One engine in one figure."""

    rule: Rule
    engine: str
    value: float
    peers: float
    """median of the others of its role"""
    times: float
    """how many times further off than would have been enough"""


@dataclass(frozen=True)
class Oddities:
    """Who is odd, and among how many."""

    found: tuple[Oddity, ...]
    """furthest off first"""
    compared: tuple[tuple[str, int], ...]
    """(role, engines) of the roles with peers enough to compare"""


def gather_oddities(snapshot: Snapshot, seats: Seats, roster: Roster, loads: Loads) -> Oddities:
    """Hold each engine against the others of its role."""
    sides = {"prefill": _places(roster.prefill, seats), "decode": _places(roster.decode, seats)}
    peered = {role: places for role, places in sides.items() if len(places) > PEERS}
    found: list[Oddity] = []
    for rule in RULES if peered else ():
        figures = rule.of(snapshot, seats, loads)
        for role in peered.keys() & set(rule.roles):
            found += _among(rule, figures, peered[role], seats)
    found.sort(key=lambda oddity: (-oddity.times, oddity.engine))
    return Oddities(tuple(found), tuple((role, len(places)) for role, places in peered.items()))


def _places(side: Side, seats: Seats) -> np.ndarray:
    """Indices of the engines that record."""
    names = set(side.engines)
    return np.array([at for at, engine in enumerate(seats.engines) if label_of(engine) in names], int)


def _among(rule: Rule, figures: Figures, places: np.ndarray, seats: Seats) -> list[Oddity]:
    places = places[~np.isnan(figures[0][places])]
    if len(places) <= PEERS:
        return []
    values, errors = (column[places] for column in figures)
    middle = float(np.median(values))
    deviation = DEVIATIONS * TO_SIGMA * float(np.median(np.abs(values - middle)))
    enough = np.maximum(max(deviation, rule.least, rule.relative * abs(middle)), DOUBT * errors)
    off = (values - middle) * (1 if rule.high else -1)
    odd = (off > enough) & (rule.high | (values < rule.only_below))
    return [
        Oddity(
            rule=rule,
            engine=label_of(seats.engines[places[at]]),
            value=float(values[at]),
            peers=float(np.median(np.delete(values, at))),
            times=float(off[at] / enough[at]),
        )
        for at in np.flatnonzero(odd).tolist()
    ]


def _steps(snapshot: Snapshot, seats: Seats, loads: Loads) -> Figures:
    """p50 of the latest steps with a forward."""
    rows = snapshot.scoped.rows  # oldest first, but for the order within a batch
    first = int(np.searchsorted(rows["t"], snapshot.now - RECENT_NS))
    found = step_lengths(replace(snapshot.scoped, rows=rows[first:]))
    return _percentile(found.ns, seats.of_process[found.process], len(seats), 50)


def _wakes(snapshot: Snapshot, seats: Seats, loads: Loads) -> Figures:
    """p95 of how long handed blocks waited for the writer."""
    return _percentile(*waits(snapshot.window, seats, "prefill", "writer_wake", ("staged",)), len(seats), 95)


def _percentile(ns: np.ndarray, seat: np.ndarray, engines: int, percentile: int) -> Figures:
    """And its standard error. Not known of few."""
    counts = np.bincount(seat, minlength=engines)
    means = grouped_mean(ns, seat, engines)
    squares = grouped_sum((ns - means[seat]) ** 2, seat, engines)
    errors = np.sqrt(squares / np.maximum(counts - 1, 1) / np.maximum(counts, 1)) * ERROR_OF[percentile]
    values = grouped_percentile(ns, seat, engines, percentile)
    return np.where(counts >= FEWEST, values, np.nan), errors


def _free(snapshot: Snapshot, seats: Seats, loads: Loads) -> Figures:
    """Share of the KV blocks that are free now."""
    blocks = kv_blocks(snapshot.processes)
    values = np.full(len(seats), np.nan)
    for at, load in loads.items():
        whole = blocks.get(seats.engines[at].engine)
        values[at] = load.free_blocks / whole if whole else np.nan
    return values, np.zeros(len(seats))


def _waiting(snapshot: Snapshot, seats: Seats, loads: Loads) -> Figures:
    """Requests in the queue now."""
    values = np.full(len(seats), np.nan)
    values[list(loads)] = [load.waiting for load in loads.values()]
    return values, np.zeros(len(seats))


RULES: tuple[Rule, ...] = (
    Rule("step", TIME, LEGS, _steps, True, 1e6, 0.2, np.inf, "a fifth more per step is a fifth more per token"),
    Rule("writer wake-up", TIME, ("prefill",), _wakes, True, 2e6, 0.5, np.inf, "a step of the engine is longer"),
    Rule("free", SHARE, LEGS, _free, False, 0.15, 0.0, 0.25, "with a quarter of its blocks free none is refused"),
    Rule("waiting", COUNT, LEGS, _waiting, True, 3.0, 0.5, np.inf, "one or two come and go with every batch"),
)
"""The one place of thresholds, each with its reason."""

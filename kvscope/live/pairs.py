"""Prefill by decode: a figure of each pair of engines, of each engine over all its pairs, and of all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kvscope.analysis.overlap import COORDINATION_STAGES
from kvscope.live.grouping import grouped_mean, grouped_percentile, grouped_sum
from kvscope.live.naming import natural
from kvscope.model.counting import most
from kvscope.model.splits import Splits
from kvscope.model.stages import STAGES, Class
from kvscope.probe.vocabulary import REASONS, UNKNOWN

TIME, RATE, COUNT = "time", "rate", "count"
WORST = 10
Reduce = Callable[[np.ndarray, np.ndarray, int], np.ndarray]
"""(values (n,), group (n,), groups) -> (groups,), NaN of a group that cannot be judged"""


@dataclass(frozen=True)
class Measure:
    """What pairs are compared by."""

    name: str
    title: str
    unit: str
    """TIME (ns), RATE (bytes/s) or COUNT"""
    low_is_worse: bool
    of: Callable[[Splits], np.ndarray]
    """(n,) f8 of each request, NaN where not known"""
    reduce: Reduce
    remark: Callable[[Splits, np.ndarray], str]
    """What else there is to say of a pair's requests, by their rows."""


@dataclass(frozen=True)
class Pairs:
    """A matrix of P prefill and D decode engines that the window's requests had."""

    measure: Measure
    prefills: tuple[str, ...]
    decodes: tuple[str, ...]
    values: np.ndarray
    """(P, D) f8, NaN where not known"""
    requests: np.ndarray
    """(P, D) requests of the pair"""
    judged: np.ndarray
    """(P, D) of these, those that the value is made of"""
    by_prefill: np.ndarray
    by_decode: np.ndarray
    overall: float
    alone: int
    """requests of which one engine only is known"""

    @property
    def pairs(self) -> int:
        """Pairs that had a request."""
        return int((self.requests > 0).sum())


@dataclass(frozen=True)
class Pair:
    """One cell in words."""

    prefill: str
    decode: str
    value: float
    judged: int
    remark: str


def _percentile(percentile: float) -> Reduce:
    return lambda values, group, groups: grouped_percentile(values, group, groups, percentile)


def _known(values: np.ndarray) -> np.ndarray:
    return np.where(values == UNKNOWN, np.nan, values.astype(float))


def _coordination(window: Splits) -> np.ndarray:
    return np.where(window.timed, window.class_bounds(Class.COORDINATION)[0].astype(float), np.nan)


def _rate(window: Splits) -> np.ndarray:
    """Bytes per second over the upper bound of the time in which they moved."""
    high = window.class_bounds(Class.TRANSFER)[1]
    proved = window.timed & (window.transfer_bytes > 0) & (high > 0)
    rates = np.full(len(window), np.nan)
    np.divide(window.transfer_bytes * 1e9, high, where=proved, out=rates)
    return rates


def _largest(stages: np.ndarray) -> Callable[[Splits, np.ndarray], str]:
    """The largest of some stages, (stages,) bool, over the timed requests of a pair."""

    def remark(window: Splits, rows: np.ndarray) -> str:
        means = np.where(stages, window.exposed[rows[window.timed[rows]]].mean(axis=0), 0.0)
        largest = int(means.argmax())
        return f"{most(means[largest], means.sum())} of it in {STAGES[largest].name}"

    return remark


def _size(window: Splits, rows: np.ndarray) -> str:
    told = window.transfer_bytes[rows]
    return f"{float(np.median(told[told > 0])) / 1e6:,.1f} MB each at the median"


def _commonest_failure(window: Splits, rows: np.ndarray) -> str:
    reasons = window.failure[rows, 1]
    known = reasons[(reasons > 0) & (reasons < len(REASONS))]
    counts = np.bincount(known, minlength=1)
    return f"{most(counts.max(), len(known))} by {REASONS[int(counts.argmax())]}" if len(known) else ""


MEASURES: tuple[Measure, ...] = (
    Measure("ttft", "TTFT p95", TIME, False, lambda window: _known(window.ttft),
            _percentile(95), _largest(np.ones(len(STAGES), bool))),
    Measure("coordination", "exposed coordination, mean, at least", TIME, False, _coordination,
            grouped_mean, _largest(COORDINATION_STAGES)),
    Measure("rate", "transfer rate p50, at least", RATE, True, _rate,
            _percentile(50), _size),
    Measure("requests", "requests", COUNT, False,
            lambda window: np.ones(len(window)), grouped_sum, lambda window, rows: ""),
    Measure("failures", "requests that failed", COUNT, False,
            lambda window: (window.failure[:, 0] != 0).astype(float), grouped_sum, _commonest_failure),
)  # fmt: skip
MEASURE = {measure.name: measure for measure in MEASURES}


def gather_pairs(window: Splits, measure: Measure) -> Pairs:
    """One pass over the window for each of cells, rows, columns and all."""
    prefills, row = _seated(window, window.prefill_engine)
    decodes, column = _seated(window, window.decode_engine)
    both = (row >= 0) & (column >= 0)
    row, column, values = row[both], column[both], measure.of(window)[both]
    known = ~np.isnan(values)
    cell, shape = row * len(decodes) + column, (len(prefills), len(decodes))
    requests, judged = (np.bincount(cells, minlength=cell_count(shape)) for cells in (cell, cell[known]))

    def reduced(group: np.ndarray, groups: int) -> np.ndarray:
        found = measure.reduce(values[known], group[known], groups)
        return np.where(np.bincount(group[known], minlength=groups) > 0, found, np.nan)

    return Pairs(
        measure=measure,
        prefills=prefills,
        decodes=decodes,
        values=reduced(cell, cell_count(shape)).reshape(shape),
        requests=requests.reshape(shape),
        judged=judged.reshape(shape),
        by_prefill=reduced(row, len(prefills)),
        by_decode=reduced(column, len(decodes)),
        overall=float(reduced(np.zeros(len(row), int), 1)[0]),
        alone=len(window) - int(both.sum()),
    )


def cell_count(shape: tuple[int, int]) -> int:
    """Cells of a matrix."""
    return shape[0] * shape[1]


def worst_pairs(window: Splits, pairs: Pairs, most: int = WORST) -> tuple[Pair, ...]:
    """The worst first; pairs alike in the order of their names. Counts of none are not among them."""
    values = pairs.values.ravel()
    able = np.flatnonzero(~np.isnan(values) & ((values > 0) | (pairs.measure.unit != COUNT)))
    order = able[np.argsort(values[able] if pairs.measure.low_is_worse else -values[able], kind="stable")[:most]]
    _, row = _seated(window, window.prefill_engine)
    _, column = _seated(window, window.decode_engine)
    found = []
    for cell in order.tolist():
        at, beside = divmod(cell, len(pairs.decodes))
        remark = pairs.measure.remark(window, np.flatnonzero((row == at) & (column == beside)))
        judged = int(pairs.judged[at, beside])
        found.append(Pair(pairs.prefills[at], pairs.decodes[beside], float(values[cell]), judged, remark))
    return tuple(found)


def _seated(window: Splits, column: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
    """(names of the engines in a column, in order; (n,) index of each request's among them, -1 none).

    Several starts of an engine are one engine here.
    """
    there = np.unique(column[column >= 0]).tolist()
    names = sorted({window.engines[index].engine for index in there}, key=natural)
    number = {name: at for at, name in enumerate(names)}
    where = np.array([*(number.get(engine.engine, -1) for engine in window.engines), -1], int)
    return tuple(names), where[column]

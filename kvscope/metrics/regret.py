"""Whether another decode engine had fewer requests waiting when prefill finished: what an early choice may cost."""

from __future__ import annotations

import numpy as np

from kvscope.metrics.requests import Over
from kvscope.metrics.tables import Store
from kvscope.model.graph import NODE
from kvscope.probe.vocabulary import MOMENT_CODE, UNKNOWN, VALUES

KEPT_NS = 600_000_000_000
"""A request is judged when it is over: by the loads of so long before, at most."""
_LOAD, _WAITING = MOMENT_CODE["load"], VALUES["load"].index("waiting")


class Loads:
    """How many requests waited on each engine, and since when."""

    def __init__(self) -> None:
        self._told: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def add(self, rows: np.ndarray, engine: np.ndarray, now: int) -> None:
        """What engines told (dtype EVENT), with the row of each, -1 of none; forgets what is long past."""
        at = np.flatnonzero((rows["moment"] == _LOAD) & (engine >= 0))
        for row in np.unique(engine[at]).tolist():
            mine = rows[at[engine[at] == row]]
            mine = mine[mine["values"][:, _WAITING] != UNKNOWN]
            times, waiting = self._told.get(row, (np.empty(0, np.int64), np.empty(0, np.int64)))
            times, waiting = np.append(times, mine["t"]), np.append(waiting, mine["values"][:, _WAITING])
            order = np.argsort(times, kind="stable")
            self._told[row] = _changes(times[order], waiting[order], now - KEPT_NS)

    def drop(self, engine: int) -> None:
        """Forget an engine."""
        self._told.pop(engine, None)

    def at(self, engine: int, when: np.ndarray) -> np.ndarray:
        """(n,) f8 what waited at each instant; NaN before the first that is known."""
        times, waiting = self._told.get(engine, (np.empty(0, np.int64), np.empty(0, np.int64)))
        place = np.searchsorted(times, when, "right")
        return np.append(np.nan, waiting.astype(float))[place]


def _changes(times: np.ndarray, waiting: np.ndarray, since: int) -> tuple[np.ndarray, np.ndarray]:
    """Without repetitions, and of what was before `since` the last alone."""
    kept = np.append(True, waiting[1:] != waiting[:-1]) if len(times) else np.empty(0, bool)
    kept &= np.append(times[1:], np.iinfo(np.int64).max) >= since
    return times[kept], waiting[kept]


def add_regret(store: Store, over: Over, loads: Loads, group_of: dict[int, int]) -> None:
    """Judge requests by the decode engines of their model and connector. group_of: row of an engine -> group"""
    computed = over.splits.time[:, NODE["P.computed"]]
    able = (computed != UNKNOWN) & (over.decode >= 0) & ~over.splits.marked("unaligned")
    able &= ~over.splits.moved.any(axis=1)  # loads are told by each host's own clock
    decoding = np.flatnonzero(store.table("engine_legs_total").values[:, 1] > 0).tolist()
    for group in np.unique(over.group[able]).tolist():
        rows = np.flatnonzero(able & (over.group == group))
        engines = np.array([engine for engine in decoding if group_of.get(engine) == group], int)
        _judge(store, group, computed[rows], over.decode[rows], engines, loads)


def _judge(store: Store, group: int, when: np.ndarray, chosen: np.ndarray, engines: np.ndarray, loads: Loads) -> None:
    if len(engines) < 2:
        return
    waiting = np.stack([loads.at(engine, when) for engine in engines.tolist()])
    own = engines[:, None] == chosen
    mine = np.where(own, waiting, np.inf).min(axis=0)
    least = np.where(own | np.isnan(waiting), np.inf, waiting).min(axis=0)
    known = np.isfinite(mine) & np.isfinite(least)
    fewer = mine[known] - least[known]
    for name, value in (("judged", known.sum()), ("regretted", (fewer > 0).sum()), ("waiting", fewer[fewer > 0].sum())):
        store.table(f"regret_{name}_total").values[group, 0] += value

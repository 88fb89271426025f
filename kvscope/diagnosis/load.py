"""What engines told of themselves: their steps, and how many KV blocks were free."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvscope.diagnosis.kept import Kept
from kvscope.model.splits import Splits
from kvscope.probe.vocabulary import UNKNOWN


@dataclass(frozen=True)
class Steps:
    """Steps with a forward, by engine and begin."""

    engine: np.ndarray
    """(k,) index into the splits' engines"""
    begin: np.ndarray
    ns: np.ndarray

    def during(self, engine: np.ndarray, when: np.ndarray) -> np.ndarray:
        """(n,) f8 ns of the longer of the step an engine was in at an instant and the one before; NaN if not known"""
        found = np.full(len(engine), np.nan)
        for one in np.unique(engine[engine >= 0]).tolist():
            low, high = np.searchsorted(self.engine, (one, one + 1))
            rows = np.flatnonzero((engine == one) & (when != UNKNOWN))
            at = np.searchsorted(self.begin[low:high], when[rows], "right") - 1
            rows, at = rows[at >= 0], at[at >= 0]
            lengths = self.ns[low:high]
            found[rows] = np.maximum(lengths[at], lengths[np.maximum(at - 1, 0)])
        return found

    def busy(self, engine: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """(n,) f8 share of [begin, end) in which an engine was in a step; NaN where not known, or nothing"""
        found = np.full(len(engine), np.nan)
        for one in np.unique(engine[engine >= 0]).tolist():
            low, high = np.searchsorted(self.engine, (one, one + 1))
            rows = np.flatnonzero((engine == one) & (begin != UNKNOWN) & (end != UNKNOWN) & (end > begin))
            if high > low and len(rows):
                spent = _spent(self.begin[low:high], self.ns[low:high], np.stack((begin[rows], end[rows])))
                found[rows] = (spent[1] - spent[0]) / (end[rows] - begin[rows])
        return found


@dataclass(frozen=True)
class Free:
    """Free KV blocks and running requests as engines told them, by engine and time."""

    engine: np.ndarray
    t: np.ndarray
    share: np.ndarray
    """(k,) f8 of the engine's blocks, NaN where the engine did not tell how many it has"""
    running: np.ndarray

    def at(self, engine: np.ndarray, when: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """((n,) share of blocks free at an instant, (n,) requests running then), NaN where not known"""
        share, running = np.full(len(engine), np.nan), np.full(len(engine), np.nan)
        for one in np.unique(engine[engine >= 0]).tolist():
            low, high = np.searchsorted(self.engine, (one, one + 1))
            rows = np.flatnonzero((engine == one) & (when != UNKNOWN))
            at = np.searchsorted(self.t[low:high], when[rows], "right") - 1
            rows, at = rows[at >= 0], at[at >= 0]
            share[rows], running[rows] = self.share[low:high][at], self.running[low:high][at]
        return share, running


def _spent(begins: np.ndarray, ns: np.ndarray, when: np.ndarray) -> np.ndarray:
    """f8 ns in steps up to each instant; where steps of several ranks overlap, they count once"""
    ends = np.maximum.accumulate(begins + ns)
    begins = np.maximum(begins, np.concatenate((begins[:1], ends[:-1])))
    ns = np.maximum(ends - begins, 0.0)
    before = np.concatenate(([0.0], np.cumsum(ns)))
    at = np.searchsorted(begins, when, "right")
    last = np.maximum(at - 1, 0)
    inside = np.clip(when - begins[last], 0.0, ns[last])
    return np.where(at > 0, before[last] + inside, 0.0)


def gather_steps(kept: Kept, engine: np.ndarray) -> Steps:
    """engine: (processes,) index into the splits' engines, -1 where it is none"""
    whose = engine[kept.column("step", "process")]
    begin, ns = kept.column("step", "begin"), kept.column("step", "ns")
    order = np.lexsort((begin, whose))
    if ((begin[order][1:] == begin[order][:-1]) & (whose[order][1:] == whose[order][:-1])).any():
        order = np.lexsort((ns, begin, whose))
    order = order[whose[order] >= 0]
    return Steps(whose[order], begin[order], ns[order].astype(float))


def gather_free(kept: Kept, engine: np.ndarray, splits: Splits) -> Free:
    """engine: (processes,) index into the splits' engines, -1 where it is none"""
    whose, t = engine[kept.column("load", "process")], kept.column("load", "t")
    free, running = kept.column("load", "free"), kept.column("load", "running")
    order = np.lexsort((running, free, t, whose))
    order = order[whose[order] >= 0]
    whose, t, free, running = whose[order], t[order], free[order], running[order]
    blocks = [one.started.get("kv_blocks") for one in splits.engines]
    room = np.array([n if isinstance(n, int) and n > 0 else np.nan for n in blocks], float)
    return Free(whose, t, _known(free) / room[whose], _known(running))


def _known(values: np.ndarray) -> np.ndarray:
    return np.where(values == UNKNOWN, np.nan, values.astype(float))

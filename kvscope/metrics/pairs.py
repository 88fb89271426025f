"""Pairs of engines: those with most requests are told by name, the others together.

A pair that loses its place to a busier one is told no more; what it does from then on counts among the others, and
should it come back, it begins anew. So nothing that is told ever goes backwards, and nothing counts twice.
"""

from __future__ import annotations

import numpy as np

from kvscope.metrics.labels import PAIR
from kvscope.metrics.requests import Over
from kvscope.metrics.tables import Labels, Rows, Store
from kvscope.model.splits import Splits
from kvscope.model.stages import Class
from kvscope.probe.vocabulary import UNKNOWN

ELECT_NS = 60_000_000_000
"""How often places are given anew."""
FADE = 0.8
"""What remains of a pair's weight from one election to the next: five minutes count, mostly."""
CLEARLY = 1.5
"""A pair takes another's place if it has so many times its weight: pairs that are much alike keep theirs."""
FAINT = 0.5
"""A pair of less weight is forgotten."""


class Places:
    """Which pairs have a row of their own."""

    def __init__(self) -> None:
        self.rows = Rows(PAIR)
        self._weight: dict[Labels, float] = {}
        self._elected: int | None = None

    def rows_of(self, prefill: np.ndarray, decode: np.ndarray, names: list[str]) -> np.ndarray:
        """(n,) the row of each request. prefill, decode: (n,) index of the engine's name"""
        pair, inverse, counts = np.unique(prefill * len(names) + decode, return_inverse=True, return_counts=True)
        found = []
        for one, count in zip(pair.tolist(), counts.tolist(), strict=True):
            labels = names[one // len(names)], names[one % len(names)]
            self._weight[labels] = self._weight.get(labels, 0.0) + count
            found.append(self.rows.row(labels))
        return np.array(found, int)[inverse]

    def elect(self, now: int) -> list[int]:
        """Give places anew, if it is time; rows to be cleared."""
        if self._elected is not None and now - self._elected < ELECT_NS:
            return []
        self._elected = now
        cleared = []
        held = sorted(self.rows, key=self._weigh)
        others = sorted(self._weight.keys() - set(held), key=self._weigh, reverse=True) if self.rows.full else []
        for weakest, strongest in zip(held, others, strict=False):
            if self._weigh(strongest) <= CLEARLY * self._weigh(weakest):
                break
            cleared.append(self.rows.drop(weakest))
            self.rows.row(strongest)
        self._weight = {pair: FADE * weight for pair, weight in self._weight.items() if FADE * weight >= FAINT}
        return cleared

    def _weigh(self, labels: Labels) -> float:
        return self._weight.get(labels, 0.0)


def add_pairs(store: Store, over: Over, places: Places) -> None:
    """Count requests both of whose engines are known."""
    splits = over.splits
    both = np.flatnonzero((splits.prefill_engine >= 0) & (splits.decode_engine >= 0))
    if not len(both):
        return
    chosen = splits.select(both)
    names = [engine.engine for engine in splits.engines]
    row = places.rows_of(chosen.prefill_engine.astype(int), chosen.decode_engine.astype(int), names)
    store.table("pair_requests_total").add(row, 0, 1)
    store.table("pair_failures_total").add(row[chosen.failure[:, 0] != 0], 0, 1)
    _timed(store, chosen.select(chosen.timed), row[chosen.timed])
    told = chosen.transfer_bytes != UNKNOWN
    store.table("pair_transfer_bytes_total").add(row[told], 0, chosen.transfer_bytes[told])


def _timed(store: Store, timed: Splits, row: np.ndarray) -> None:
    store.table("pair_timed_requests_total").add(row, 0, 1)
    store.table("pair_ttft_seconds_total").add(row, 0, timed.ttft)
    store.table("pair_coordination_seconds_total").add(row, 0, timed.class_bounds(Class.COORDINATION)[0])
    sent = timed.transfer_bytes > 0
    for bound, ns in enumerate(timed.class_bounds(Class.TRANSFER)):
        store.table("pair_transfer_seconds_total").add(row[sent], bound, ns[sent])

"""What is told at one instant: all numbers, whose they are, and what engines said of themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kvscope.metrics.catalogue import Kind, Metric
from kvscope.metrics.labels import ALONE, ENGINE, Scope, label_value
from kvscope.metrics.tables import Histogram, Labels, Store, Table

FACTS = (
    "pod", "namespace", "node", "role", "mode", "placement", "connector", "vllm", "nixl", "torch", "release",
    "patches", "gpu", "tp", "pp", "dp", "block_size",
)  # fmt: skip
"""What the info metric of an engine carries; empty where it was not told."""


def facts_of(told: Mapping[str, Any]) -> dict[str, str]:
    """The same of what an engine told at its start."""
    words = {name: told.get(name) for name in FACTS} | {"node": told.get("node") or told.get("node_name")}
    return {name: "" if value is None else label_value(str(value)) for name, value in words.items()}


@dataclass(frozen=True)
class Told:
    """Frozen: nobody writes to it any more."""

    store: Store
    labels: Mapping[Scope, Mapping[int, Labels]]
    """scope -> row -> label values"""
    facts: Mapping[int, Mapping[str, str]]
    """row of an engine -> what it is"""
    judged: bool
    """whether there are objectives"""

    def rows(self, metric: Metric) -> Mapping[int, Labels]:
        """Rows of a metric that are told, with their label values."""
        return {0: ()} if metric.scope is ALONE else self.labels[metric.scope]

    def values(self, table: Table) -> Iterator[tuple[Labels, float]]:
        """(label values, value) of each series that is told."""
        metric, rest = table.metric, metric_rest(table.metric)
        known = ~np.isnan(table.values)
        if metric.sparse and metric.kind is Kind.COUNTER:
            known &= table.values != 0
        for row, labels in self.rows(metric).items():
            if row == rest and not _adds_up(table, row):
                continue
            numbers = (table.values[row] * metric.scale).tolist()
            for column in np.flatnonzero(known[row]).tolist():
                yield labels + metric.columns[column], numbers[column]

    def distributions(self, table: Histogram) -> Iterator[tuple[Labels, int, int]]:
        """(label values, row, column) of each histogram that is told."""
        metric, rest = table.metric, metric_rest(table.metric)
        some = np.asarray(table.counts.any(axis=2))
        for row, labels in self.rows(metric).items():
            shown = some[row] if metric.sparse or (row == rest and not some[row].any()) else np.ones_like(some[row])
            for column in np.flatnonzero(shown).tolist():
                yield labels + metric.columns[column], row, column


def _adds_up(table: Table, row: int) -> bool:
    """Whether what is beyond has something to tell. Gauges of several engines are none of all of them."""
    if table.metric.scope is ENGINE and table.metric.kind is Kind.GAUGE:
        return False
    return bool((~np.isnan(table.values[row]) & (table.values[row] != 0)).any())


def metric_rest(metric: Metric) -> int | None:
    """The row of what is beyond, which is told only when there is something."""
    return None if metric.scope is ALONE else metric.scope.most

"""Numbers by label set, as arrays: a row for each set of the scope, a column for each set that is known beforehand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from kvscope.metrics.catalogue import METRICS, PREFIX, Kind, Metric
from kvscope.metrics.labels import Scope, label_value

Labels = tuple[str, ...]


class Rows:
    """Which row each label set of a scope has. A set that is let go leaves its row to another."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._row: dict[Labels, int] = {}
        self._free = list(range(scope.most))[::-1]

    def __len__(self) -> int:
        return len(self._row)

    def __iter__(self) -> Iterator[Labels]:
        return iter(self._row)

    def __contains__(self, labels: Labels) -> bool:
        return labels in self._row

    def row(self, labels: Labels) -> int:
        """The row of a set, which is given one if there is any left; else that of what is beyond."""
        if labels not in self._row:
            if not self._free or labels == self.scope.rest:
                return self.rest
            self._row[labels] = self._free.pop()
        return self._row[labels]

    def drop(self, labels: Labels) -> int:
        """Let a set go that has a row; returns it."""
        row = self._row.pop(labels)
        self._free.append(row)
        return row

    @property
    def rest(self) -> int:
        """The row of what is beyond; of a scope without labels the only one."""
        return self.scope.most

    @property
    def full(self) -> bool:
        """Whether no row is left."""
        return not self._free

    def told(self) -> dict[int, Labels]:
        """row -> labels of those that have one, in the order in which they came, as they are told; then of the rest."""
        named = {row: tuple(map(label_value, labels)) for labels, row in self._row.items()}
        return named | {self.rest: self.scope.rest}


@dataclass
class Exemplars:
    """For each bucket the request that was counted there last."""

    id: np.ndarray
    """text; None where there is none"""
    ns: np.ndarray
    at: np.ndarray
    """seconds since 1970"""

    def copied(self) -> Exemplars:
        """As it stands."""
        return Exemplars(self.id.copy(), self.ns.copy(), self.at.copy())


class Table:
    """What is held of one metric: counters, or gauges (NaN: not known)."""

    def __init__(self, metric: Metric, values: np.ndarray | None = None) -> None:
        self.metric = metric
        self.column = {labels: index for index, labels in enumerate(metric.columns)}
        nothing = np.nan if metric.kind is Kind.GAUGE else 0.0
        shape = (metric.scope.most + 1, len(metric.columns))
        self.values = np.full(shape, nothing) if values is None else values

    def add(self, rows: np.ndarray, columns: np.ndarray | int, values: np.ndarray | float) -> None:
        """Add to counters; a row or column may occur often."""
        np.add.at(self.values.reshape(-1), rows * self.values.shape[1] + columns, values)

    def set(self, row: int, column: int, value: float) -> None:
        """A gauge, or a counter that somebody else keeps."""
        self.values[row, column] = value

    def clear(self, row: int) -> None:
        """Forget a row."""
        self.values[row] = np.nan if self.metric.kind is Kind.GAUGE else 0.0

    def copied(self) -> Table:
        """As it stands."""
        return Table(self.metric, self.values.copy())


class Histogram:
    """What is held of one histogram. Values in ns."""

    def __init__(self, metric: Metric) -> None:
        assert metric.buckets is not None
        self.metric, self.buckets = metric, metric.buckets
        self.column = {labels: index for index, labels in enumerate(metric.columns)}
        shape = (metric.scope.most + 1, len(metric.columns))
        self.counts = np.zeros((*shape, len(self.buckets)), np.int64)
        self.sums = np.zeros(shape, np.int64)
        each = self.counts.shape
        self.exemplars = Exemplars(np.full(each, None, object), np.zeros(each), np.zeros(each))

    def observe(self, rows: np.ndarray, columns: np.ndarray | int, ns: np.ndarray) -> np.ndarray:
        """Count values (n,); returns the bucket of each."""
        bucket = self.buckets.of(ns)
        cells = rows * self.sums.shape[1] + columns
        np.add.at(self.counts.reshape(-1), cells * len(self.buckets) + bucket, 1)
        np.add.at(self.sums.reshape(-1), cells, ns)
        return bucket

    def observe_of(
        self, ids: np.ndarray, at: float, rows: np.ndarray, columns: np.ndarray | int, ns: np.ndarray
    ) -> None:
        """The same of requests with these ids (n,), counted at that time of day: of each bucket the last is kept."""
        where = (rows, columns, self.observe(rows, columns, ns))
        self.exemplars.id[where], self.exemplars.ns[where], self.exemplars.at[where] = ids, ns, at

    def clear(self, row: int) -> None:
        """Forget a row."""
        self.counts[row], self.sums[row], self.exemplars.id[row] = 0, 0, None

    def copied(self) -> Histogram:
        """As it stands."""
        copy = Histogram.__new__(Histogram)
        copy.metric, copy.buckets, copy.column = self.metric, self.buckets, self.column
        copy.counts, copy.sums, copy.exemplars = self.counts.copy(), self.sums.copy(), self.exemplars.copied()
        return copy


class Store:
    """A table of each metric whose labels are known beforehand, by its name without the prefix."""

    def __init__(self, tables: Iterable[Table | Histogram] = ()) -> None:
        made = tables or (Histogram(metric) if metric.buckets else Table(metric) for metric in METRICS)
        self._tables = {table.metric.name.removeprefix(PREFIX): table for table in made}

    def __iter__(self) -> Iterator[Table | Histogram]:
        return iter(self._tables.values())

    def table(self, name: str) -> Table:
        """Of a counter or gauge."""
        found = self._tables[name]
        assert isinstance(found, Table)
        return found

    def histogram(self, name: str) -> Histogram:
        """Of a histogram."""
        found = self._tables[name]
        assert isinstance(found, Histogram)
        return found

    def clear(self, scope: Scope, row: int) -> None:
        """Forget a row of everything in a scope."""
        for table in self:
            if table.metric.scope is scope:
                table.clear(row)

    def copied(self) -> Store:
        """As it stands."""
        return Store([table.copied() for table in self])

"""The page that Prometheus scrapes, in the format that it asks for."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from kvscope.metrics.catalogue import METRICS, Kind, Metric
from kvscope.metrics.labels import ALONE, ENGINE
from kvscope.metrics.tables import Exemplars, Histogram, Table
from kvscope.metrics.telling import Told
from kvscope.model.controls import UNSEEN
from kvscope.probe.recording import VERSION

LONGEST_ID = 120
"""Characters of a request id in an exemplar: OpenMetrics allows 128 with the label's name."""
_PLAIN = UNSEEN | dict.fromkeys(map(ord, '"\\'), "?")
"""Prometheus keeps an exemplar's label as it was escaped: an id that needs none is shown as it is."""
SLO_ONLY = ("kvscope_requests_judged_total", "kvscope_slow_")
"""Metrics, by the beginnings of their names, that are told only where there are objectives."""


@dataclass(frozen=True)
class Page:
    """An answer to a scrape."""

    body: bytes
    media_type: str
    encoding: str
    """of the body: gzip or empty"""


class Exporter:
    """Makes pages of what `tell` gives."""

    def __init__(self, tell: Callable[[], Told]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Families(tell))
        ProcessCollector(registry=self._registry)

    def page(self, accept: str, accept_encoding: str = "") -> Page:
        """In Prometheus's text format, or as OpenMetrics, with exemplars, where that is asked for."""
        try:
            encode, media_type = choose_encoder(accept)
        except (TypeError, ValueError):  # it asks for a version that is no number
            encode, media_type = choose_encoder("")
        body = encode(self._registry)
        if takes_gzip(accept_encoding):
            return Page(gzip.compress(body, 5), media_type, "gzip")
        return Page(body, media_type, "")


def takes_gzip(accept_encoding: str) -> bool:
    """Whether a header asks for it: by name, or for anything, and not with a weight of nothing or of no number."""
    weights = dict(map(_weighed, accept_encoding.lower().split(",")))
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def _weighed(coding: str) -> tuple[str, float]:
    name, *parameters = (word.strip() for word in coding.split(";"))
    told = [value.strip() for key, _, value in (word.partition("=") for word in parameters) if key.strip() == "q"]
    try:
        return name, float(told[0]) if told else 1.0
    except ValueError:
        return name, 0.0


class _Families(Collector):
    """Families made when they are asked for."""

    def __init__(self, tell: Callable[[], Told]) -> None:
        self._tell = tell

    def describe(self) -> list[Family]:
        """Nothing is to be had before the first scrape."""
        return []

    def collect(self) -> Iterator[Family]:
        """One for each metric of the catalogue."""
        return families(self._tell())


def families(told: Told) -> Iterator[Family]:
    """All that is told, as prometheus-client has it."""
    tables = {table.metric.name: table for table in told.store}
    for metric in METRICS:
        if not told.judged and metric.name.startswith(SLO_ONLY):
            continue
        table = tables.get(metric.name)
        if metric.kind is Kind.INFO:
            yield _info(metric, told)
        elif isinstance(table, Histogram):
            yield _histogram(metric, table, told)
        elif isinstance(table, Table):
            yield _numbers(metric, table, told)


def _info(metric: Metric, told: Told) -> Family:
    family = InfoMetricFamily(metric.family, metric.help, labels=metric.labels)
    if metric.scope is ENGINE:
        for row, labels in told.rows(metric).items():
            if row in told.facts:
                family.add_metric(labels, dict(told.facts[row]))
    else:
        family.add_metric((), {"version": version("kvscope"), "recording": str(VERSION)})
    return family


def _numbers(metric: Metric, table: Table, told: Told) -> Family:
    kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    family = kind(metric.family, metric.help, labels=metric.labels, unit=metric.unit)
    for labels, value in told.values(table):
        family.add_metric(labels, value)
    return family


def _histogram(metric: Metric, table: Histogram, told: Told) -> Family:
    family = HistogramMetricFamily(metric.family, metric.help, labels=metric.labels, unit=metric.unit)
    bounds = table.buckets.seconds
    for labels, row, column in told.distributions(table):
        sums = np.cumsum(table.counts[row, column]).tolist()
        examples = _exemplars(table.exemplars, row, column)
        buckets = [_bucket(*each) for each in zip(bounds, sums, examples, strict=True)]
        family.add_metric(labels, buckets, float(table.sums[row, column]) * metric.scale)
    return family


def _bucket(bound: str, count: int, example: Exemplar | None) -> tuple[str, float] | tuple[str, float, Exemplar]:
    return (bound, count) if example is None else (bound, count, example)


def _exemplars(kept: Exemplars, row: int, column: int) -> list[Exemplar | None]:
    """Of each bucket."""
    each = zip(kept.id[row, column].tolist(), kept.ns[row, column].tolist(), kept.at[row, column].tolist(), strict=True)
    return [
        None if text is None else Exemplar({"request": text.translate(_PLAIN)[:LONGEST_ID]}, ns / 1e9, at)
        for text, ns, at in each
    ]


assert all(metric.scope in (ENGINE, ALONE) for metric in METRICS if metric.kind is Kind.INFO)

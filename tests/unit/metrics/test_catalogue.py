"""The one table of metrics: names as Prometheus wants them, bounded, and the same in the document."""

from __future__ import annotations

import re
from pathlib import Path

from kvscope.metrics.buckets import COARSE, FINE
from kvscope.metrics.catalogue import METRICS, Kind, most_series
from kvscope.metrics.labels import LABEL_MEANING
from kvscope.metrics.markdown import BEGIN, END, tables

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"
UNITS = ("seconds", "bytes", "block_seconds", "")


def test_names_follow_the_conventions() -> None:
    for metric in METRICS:
        assert re.fullmatch(r"kvscope_[a-z][a-z_]*[a-z]", metric.name), metric.name
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER), metric.name
        assert metric.name.endswith("_info") == (metric.kind is Kind.INFO), metric.name
        assert metric.unit in UNITS, metric.name
        assert metric.family.endswith(metric.unit), metric.name
        assert metric.help.endswith("."), metric.name
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_label_sets_have_a_value_for_each_name_and_none_occurs_twice() -> None:
    for metric in METRICS:
        assert {len(columns) for columns in metric.columns} == {len(metric.inner)}, metric.name
        assert len(set(metric.columns)) == len(metric.columns), metric.name
        assert all(value for columns in metric.columns for value in columns), metric.name


def test_no_label_is_a_request() -> None:
    assert not {name for name in LABEL_MEANING if re.search("request|id$|trace|key", name)}


def test_series_are_bounded_whatever_happens() -> None:
    assert most_series(engines=200) < 50_000


def test_buckets_reach_from_a_tenth_of_a_millisecond_to_a_hundred_seconds() -> None:
    for buckets in (FINE, COARSE):
        assert (buckets.ns[0], buckets.ns[-1]) == (100_000, 100_000_000_000)
        assert list(buckets.ns) == sorted(set(buckets.ns))
        assert buckets.reason


def test_the_document_holds_the_tables() -> None:
    text = PAGE.read_text()
    assert text.split(BEGIN)[1].split(END)[0].strip() == tables().strip(), "run python -m kvscope.metrics.markdown"

"""Every rule on what a real Prometheus scraped of a real run: it can be evaluated, and at rest nothing fires."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvscope.alerts.query import LEVEL
from kvscope.alerts.recordings import RECORDINGS
from kvscope.alerts.table import ALERTS

from ..metrics.prometheus import Prometheus, needs_prometheus
from ..metrics.test_recordings import PICTURES, Played, scraped


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """One that has scraped a run that is over."""
    with scraped(Played(PICTURES / "push-early.kvs"), tmp_path_factory.mktemp("rings")) as found:
        yield found


@pytest.mark.slow
@needs_prometheus
def test_what_is_recorded_has_the_labels_of_its_level(prometheus: Prometheus) -> None:
    for recording in RECORDINGS:
        found = prometheus.vector(recording.expr)
        level, _, _ = recording.name.partition(":")
        assert found, recording.name
        assert {tuple(sorted(labels)) for labels, _ in found} == {tuple(sorted(LEVEL[level]))}, recording.name


@pytest.mark.slow
@needs_prometheus
def test_nothing_fires_at_rest(prometheus: Prometheus) -> None:
    for alert in ALERTS:
        assert prometheus.vector(alert.expr) == [], alert.name


@pytest.mark.slow
@needs_prometheus
def test_what_alerts_ask_for_is_there(prometheus: Prometheus) -> None:
    """Series that no run without trouble has: losses, holds, handshakes and expiries are told as zeros."""
    for selector in (
        'kvscope_engine_failures_total{kind="handshake"} == 0',
        'kvscope_engine_failures_total{kind="expired"} == 0',
        "kvscope_engine_events_lost_total == 0",
        'kvscope_engine_holds_total{reason="blocks"} == 0',
        "kvscope_clock_violations_total == 0",
        "kvscope_requests_in_flight_oldest_seconds == 0",
    ):
        assert prometheus.vector(selector), selector
    assert prometheus.number('sum(kvscope_pushes_total{dispatch="early"})') == 62  # and a warm-up one after the other
    assert prometheus.number('sum(kvscope_pushes_total{dispatch="sequential"})') == 1
    assert prometheus.number('sum(kvscope_slack_seconds_count{branch="registration", bound="low"})') > 0

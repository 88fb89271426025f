"""Every query of every panel on a real Prometheus, and its figures held to what `kvscope report` says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvscope.dashboards.boards import BOARDS, named
from kvscope.dashboards.panels import Look, Panel, Query
from kvscope.metrics.buckets import FINE
from kvscope.metrics.labels import CLASSES, STAGE_CLASSES

from ..metrics.prometheus import Prometheus, needs_prometheus
from ..metrics.test_recordings import PICTURES, RECORDINGS, reported
from .stage import PUT

QUERIES = [(board.key, panel, query) for board in BOARDS for panel in board.panels for query in panel.queries]
Requests = list[dict[str, Any]]
NEAR = 0.03
"""Rates of hosts that are scraped at different instants are extrapolated by different factors, close to 1."""


def near(expected: Any) -> Any:
    return pytest.approx(expected, rel=NEAR, abs=1e-6)


def put(expr: str) -> str:
    """As Grafana would ask it of everything that was played."""
    for name, value in PUT.items():
        expr = expr.replace(name, value)
    assert "$" not in expr
    return expr


def asked(prometheus: Prometheus, board: str, title: str, name: str = "") -> list[tuple[dict[str, str], float]]:
    """What one query of a panel gives."""
    panel = next(panel for panel in named(board).panels if panel.title.startswith(title))
    query = next(query for query in panel.queries if query.name == name or not name)
    return prometheus.vector(put(query.expr))


def number(prometheus: Prometheus, board: str, title: str, name: str = "") -> float:
    """The one figure that it gives."""
    ((_, value),) = asked(prometheus, board, title, name)
    return value


def by(prometheus: Prometheus, label: str, *query: str) -> dict[str, float]:
    """label value -> figure"""
    return {labels[label]: value for labels, value in asked(prometheus, *query)}


@pytest.mark.slow
@needs_prometheus
@pytest.mark.parametrize(("board", "panel", "query"), QUERIES, ids=lambda part: getattr(part, "title", ""))
def test_a_query_gives_data_now_and_over_time(prometheus: Prometheus, board: str, panel: Panel, query: Query) -> None:
    expr = put(query.expr)
    found = prometheus.vector(expr)
    assert found or query.empty
    assert all(value == value for _, value in found), "not a number: divide by what is more than nothing"
    if panel.look not in (Look.TABLE, Look.MATRIX, Look.STAT):
        assert prometheus.over_time(expr) or query.empty


@pytest.fixture(scope="module")
def reports() -> list[dict[str, Any]]:
    """Of each recording."""
    return [reported(PICTURES / f"{name}.kvs") for name in RECORDINGS]


@pytest.fixture(scope="module")
def requests(reports: list[dict[str, Any]]) -> Requests:
    """Of all recordings, with their times, as reported."""
    found = [request for report in reports for request in report["requests"]]
    assert all(request["ttft_ns"] is not None for request in found)
    return found


def mean_s(requests: Requests, part: Callable[[dict[str, Any]], float]) -> float:
    return sum(map(part, requests)) / len(requests) / 1e9


def of_class(cls: str, exposure: str = "exposed") -> Callable[[dict[str, Any]], float]:
    """The time that a request spent in a class."""
    stages = [stage for stage, of in STAGE_CLASSES if of == cls]
    return lambda request: float(sum(request[exposure].get(stage, 0) for stage in stages))


@pytest.mark.slow
@needs_prometheus
def test_classes_are_the_report_s_means(prometheus: Prometheus, requests: Requests) -> None:
    found = by(prometheus, "class", "ttft", "Mean time to first token, by class: all")
    expected = {cls: mean_s(requests, of_class(cls)) for cls in CLASSES}
    assert found == near(expected)
    assert sum(found.values()) == near(mean_s(requests, lambda request: request["ttft_ns"]))
    assert by(prometheus, "class", "ttft", "Classes", "on the path") == near(expected)
    hidden = by(prometheus, "class", "ttft", "Classes", "hidden")
    assert hidden == near({cls: mean_s(requests, of_class(cls, "hidden")) for cls in hidden})


@pytest.mark.slow
@needs_prometheus
def test_slow_requests_are_those_that_missed_the_objective(prometheus: Prometheus, requests: Requests) -> None:
    slow = [request for request in requests if request["ttft_ns"] > 300e6]
    assert 5 < len(slow) < len(requests)
    found = by(prometheus, "class", "ttft", "Mean time to first token, by class: requests that missed")
    assert found == near({cls: mean_s(slow, of_class(cls)) for cls in CLASSES})
    assert number(prometheus, "ttft", "Objectives met", "ttft") == near(1 - len(slow) / len(requests))


@pytest.mark.slow
@needs_prometheus
def test_coordination_has_the_report_s_two_bounds(prometheus: Prometheus, requests: Requests) -> None:
    ttft = mean_s(requests, lambda request: request["ttft_ns"])
    low = mean_s(requests, of_class("coordination"))
    more = mean_s(requests, lambda request: sum(request["exposed"].get(name, 0) for name in ("submit", "poll_gap")))
    assert number(prometheus, "ttft", "Coordination, share", "at least") == near(low / ttft)
    assert number(prometheus, "ttft", "Coordination, share", "at most") == near((low + more) / ttft)
    assert number(prometheus, "trust", "Undetermined") == near(mean_s(requests, of_class("undetermined")) / ttft)
    for name in ("exposed", "hidden"):
        found = number(prometheus, "ttft", "Coordination per request, exposed", name)
        assert found == near(mean_s(requests, of_class("coordination", name)))


@pytest.mark.slow
@needs_prometheus
@pytest.mark.parametrize("percent", [50, 95, 99])
def test_quantiles_lie_in_the_bucket_of_the_report_s(prometheus: Prometheus, requests: Requests, percent: int) -> None:
    ttft = sorted(request["ttft_ns"] for request in requests)
    exact = ttft[-(-percent * len(ttft) // 100) - 1]
    low, high = next((a, b) for a, b in zip((0, *FINE.ns), FINE.ns, strict=False) if a < exact <= b)
    found = number(prometheus, "ttft", "Time to first token", f"p{percent}")
    assert low / 1e9 <= found <= high / 1e9


@pytest.mark.slow
@needs_prometheus
def test_stages_by_connector_are_the_report_s(prometheus: Prometheus, requests: Requests) -> None:
    for connector, shape in (("NixlConnector", "pull"), ("NixlPushConnector", "push")):
        mine = [request for request in requests if request["shape"] == shape]
        for exposure, column in (("exposed", "on the path"), ("hidden", "hidden")):
            rows = asked(prometheus, "handoff", "Every stage", column)
            found = {labels["stage"]: value for labels, value in rows if labels["connector"] == connector}
            expected = {stage: mean_s(mine, lambda request, at=stage, on=exposure: request[on].get(at, 0))  # type: ignore[misc]
                        for stage in found}  # fmt: skip
            assert found == near(expected)
            assert found or exposure == "hidden"


@pytest.mark.slow
@needs_prometheus
def test_counts_are_exact_by_raw_differences(prometheus: Prometheus, requests: Requests) -> None:
    for name, expected in (
        ("kvscope_requests_total", len(requests)),
        ("kvscope_ttft_seconds_count", len(requests)),
        ("kvscope_pair_transfer_bytes_total", sum(request["transfer_bytes"] for request in requests)),
    ):
        samples = prometheus.samples(name).values()
        assert sum(values[-1] - values[0] for values in samples) == expected
        assert all(values == sorted(values) for values in samples)


@pytest.mark.slow
@needs_prometheus
def test_prices_are_the_report_s(prometheus: Prometheus, reports: list[dict[str, Any]], requests: Requests) -> None:
    prices = [report["summary"]["price"] for report in reports]
    rows = {labels["engine_name"]: value
            for labels, value in asked(prometheus, "commitment", "The price", "blocks reserved, empty")}  # fmt: skip
    pinned = by(prometheus, "engine_name", "commitment", "The price", "blocks held by prefills")
    expected = sum(price["reserved"]["block_s"] for price in prices) / sum(
        price["pinned"]["block_s"] for price in prices
    )
    assert rows["d0"] / pinned["p0"] == near(expected)
    assert number(prometheus, "handoff", "Bytes per transfer") == near(
        sum(request["transfer_bytes"] for request in requests) / len(requests)
    )
    assert number(prometheus, "trust", "Complete requests") == 1.0


@pytest.mark.slow
@needs_prometheus
def test_a_dot_leads_to_a_request(prometheus: Prometheus, requests: Requests) -> None:
    panels = [panel for board in BOARDS for panel in board.panels if panel.exemplars]
    ids = {request["request"] for request in requests}
    assert len(panels) > 3
    for panel in panels:
        found = [exemplar for query in panel.queries for exemplar in prometheus.exemplars(put(query.expr))]
        assert {exemplar["labels"]["request"] for exemplar in found} <= ids
        assert found, panel.title

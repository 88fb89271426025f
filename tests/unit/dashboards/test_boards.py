"""Rules that every panel keeps."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kvscope.dashboards.boards import BOARDS, UNSHOWN, shown
from kvscope.dashboards.document import document
from kvscope.dashboards.panels import Board, Limits, Look, Panel
from kvscope.dashboards.promql import labels_of, metric_of, quantile, series
from kvscope.metrics.catalogue import METRIC, METRICS, PREFIX

PANELS = [pytest.param(panel, id=f"{board.key}: {panel.title}") for board in BOARDS for panel in board.panels]
SELECTOR = re.compile(r"\b(kvscope_[a-z_]+)(?:\{([^}]*)\})?")
CHOICES = {"model", "connector", "engine", "prompt", "stage", "datasource", "__rate_interval", "__range"}
boards = pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.key)
panels = pytest.mark.parametrize("panel", PANELS)


def drawn(board: Board) -> list[dict[str, Any]]:
    """Panels of the document, rows aside."""
    return [panel for panel in document(board)["panels"] if panel["type"] != "row"]


@panels
def test_queries_ask_for_metrics_and_labels_of_the_catalogue(panel: Panel) -> None:
    everything = SELECTOR.findall(" ".join(query.expr for query in panel.queries))
    known = {label for name, _ in everything for label in labels_of(metric_of(name.removeprefix(PREFIX)))}
    for query in panel.queries:
        found = SELECTOR.findall(query.expr)
        assert found or "vllm:" in query.expr
        for name, inside in found:
            asked = set(re.findall(r'([a-z_]+)[=!]~?"', inside))
            assert asked <= set(labels_of(metric_of(name.removeprefix(PREFIX)))), query.expr
        for grouped in re.findall(r"\b(?:by|on|group_left) \(([^)]*)\)", query.expr):
            assert {label for label in re.split(r",\s*", grouped) if label} <= known, query.expr
        assert set(re.findall(r"\{\{(\w+)\}\}", query.name)) <= known
        assert set(panel.names) <= known | {"instance", "version", "recording"}
        assert set(re.findall(r"\$\{?(\w+)", query.expr)) <= CHOICES


def test_every_metric_is_shown_or_it_is_said_why_not() -> None:
    assert {metric.name for metric in METRICS if not shown(metric)} == UNSHOWN.keys()
    assert set(UNSHOWN) <= METRIC.keys()


@panels
def test_a_panel_says_what_it_shows_and_from_where_on_it_is_bad(panel: Panel) -> None:
    assert len(panel.text) > 8
    assert panel.text.endswith(".")
    assert len(panel.limits.reason) > 12
    assert panel.nothing != "No data"
    numbers = [value for value, _ in panel.limits.steps[1:]]
    assert numbers == sorted(numbers)  # type: ignore[type-var]
    assert (panel.limits.warn is None) == panel.limits.reason.startswith("none: ")


@panels
def test_percentiles_are_never_stacked(panel: Panel) -> None:
    if panel.look is Look.STACK:
        assert not any("quantile" in query.expr for query in panel.queries)


@panels
def test_dots_are_asked_for_where_buckets_are(panel: Panel) -> None:
    assert not panel.exemplars or all("_bucket" in query.expr for query in panel.queries)


@boards
def test_no_data_source_is_written_into_a_dashboard(board: Board) -> None:
    uids = re.findall(r"'uid': '([^']*)'", str({**document(board), "uid": ""}))
    assert set(uids) - {""} == {"${datasource}", "-- Grafana --"}
    assert [each["name"] for each in document(board)["templating"]["list"]][:4] == [
        "datasource", "model", "connector", "engine",
    ]  # fmt: skip


@boards
def test_panels_lie_beside_each_other_and_have_numbers_of_their_own(board: Board) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in document(board)["panels"]:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}  # fmt: skip
        assert not taken & cells
        assert place["x"] + place["w"] <= 24
        taken |= cells
    numbers = [panel["id"] for panel in document(board)["panels"]]
    assert len(set(numbers)) == len(numbers)
    assert len({panel.title for panel in board.panels}) == len(board.panels)


@boards
def test_a_panel_is_drawn_with_unit_description_thresholds_and_a_word_for_nothing(board: Board) -> None:
    for made, panel in zip(drawn(board), board.panels, strict=True):
        defaults = made["fieldConfig"]["defaults"]
        assert defaults["unit"] == panel.unit.value
        assert defaults["noValue"] == panel.nothing
        assert [(step["value"], step["color"]) for step in defaults["thresholds"]["steps"]] == list(panel.limits.steps)
        assert made["description"] == f"{panel.text}\n\nThresholds: {panel.limits.reason}."
        assert [target["expr"] for target in made["targets"]] == [query.expr for query in panel.queries]
        assert len({target["refId"] for target in made["targets"]}) == len(panel.queries)


@boards
def test_links_lead_to_dashboards_that_there_are_with_what_was_chosen(board: Board) -> None:
    for made in drawn(board):
        for link in made["fieldConfig"]["defaults"].get("links", []):
            assert re.match(r"/d/([a-z-]+)\?", link["url"])[1] in {each.uid for each in BOARDS}  # type: ignore[index]
            assert all(word in link["url"] for word in ("${__url_time_range}", "${datasource:queryparam}", "engine"))


def test_low_is_bad_where_it_is_said() -> None:
    assert Limits("a share", 0.95, 0.9, low=True).steps == ((None, "red"), (0.9, "orange"), (0.95, "green"))
    assert Limits("a delay", 1, 2).steps == ((None, "green"), (1, "orange"), (2, "red"))
    assert Limits("none: a fact").steps == ((None, "green"),)


def test_what_the_catalogue_has_not_cannot_be_asked_for() -> None:
    with pytest.raises(KeyError):
        series("ttft_millis_sum")
    with pytest.raises(KeyError, match="one of _bucket, _sum, _count"):
        series("ttft_seconds")
    with pytest.raises(KeyError, match="no label pod"):
        quantile(0.5, "ttft_seconds", pod="p")

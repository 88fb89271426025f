"""The JSON document: what its description names is there, and what is there is described."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvscope.analysis.document import report_document, request_document
from kvscope.analysis.objectives import parse_objectives
from kvscope.analysis.summary import gather_summary
from kvscope.model.events import Events
from kvscope.model.splits import Splits
from kvscope.model.stages import STAGE

DESCRIBED = (Path(__file__).parents[3] / "docs" / "json.md").read_text()


@pytest.fixture(scope="module")
def document(early: tuple[Events, Splits]) -> dict[str, Any]:
    events, splits = early
    summary = gather_summary(events, splits, parse_objectives("ttft=200ms"))
    made: dict[str, Any] = json.loads("".join(report_document(summary, splits)))
    return made


def test_every_field_is_described(document: dict[str, Any]) -> None:
    (first, *_), summary = document["requests"], document["summary"]
    names = {*first, *first["path"][0], *summary, *summary["condition"], *summary["bands"][0], *summary["price"]}
    names |= {*summary["transfers"], *summary["overlap"], *summary["slo"], *summary["running"]}
    assert not [name for name in names if f"`{name}`" not in DESCRIBED and f"`{name}[]`" not in DESCRIBED]


def test_paths_and_bands_add_up(document: dict[str, Any]) -> None:
    for request in document["requests"]:
        assert sum(step["ns"] for step in request["path"]) == request["ttft_ns"]
        assert {step["stage"] for step in request["path"]} <= STAGE.keys()
    for band in document["summary"]["bands"]:
        assert sum(band["stages"].values()) == pytest.approx(band["mean_ns"])
        assert sum(band["classes"].values()) == pytest.approx(band["mean_ns"])


def test_each_request_stands_on_its_own_line(early: tuple[Events, Splits]) -> None:
    events, splits = early
    lines = "".join(report_document(gather_summary(events, splits), splits)).splitlines()
    assert len(lines) == len(splits) + 2
    assert json.loads(lines[1].rstrip(","))["request"] == splits.text(0)


def test_one_request_has_all_its_moments(early: tuple[Events, Splits]) -> None:
    found = early[1][0]
    (request,) = json.loads(request_document(found))["requests"]
    assert [stamp["moment"] for stamp in request["moments"]] == [stamp.moment for stamp in found.stamps]

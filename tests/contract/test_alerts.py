"""What is committed of the alerts is what the code makes; every runbook is whole, and its commands can be typed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvscope.alerts.__main__ import FILES, tree
from kvscope.alerts.recordings import RECORDINGS
from kvscope.alerts.table import ALERTS
from kvscope.cli import front, verbs
from kvscope.live.filter import parse_filter
from kvscope.metrics.catalogue import METRIC, Kind, Metric
from kvscope.metrics.telling import FACTS

from .tree import ROOT

RUNBOOKS = sorted((ROOT / "docs/runbooks").glob("*.md"))
HEADINGS = (
    "What it means",
    "Confirm it in a minute",
    "What looks like it",
    "What to do",
    "What that costs",
    "When to ignore it",
)
TEXTS = [*RUNBOOKS, ROOT / "docs/alerts.md", *(ROOT / path for path in FILES.values())]
RECORDED = re.compile(r"\w+:kvscope_\w+:\w+")
SELECTOR = re.compile(r"\b(kvscope_[a-z_]+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)(=~|=)"([^"]*)"')
SCRAPED = {"job", "instance"}
page_of = pytest.mark.parametrize("page", RUNBOOKS, ids=lambda path: path.stem)
text_of = pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)


@pytest.mark.parametrize("path", tree(ROOT), ids=lambda path: path.name)
def test_it_is_what_the_code_makes(path: Path) -> None:
    assert path.read_text() == tree(ROOT)[path], "run python -m kvscope.alerts tree"


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    assert {page.name for page in RUNBOOKS} == {alert.page for alert in ALERTS}


@page_of
def test_a_runbook_has_all_its_parts(page: Path) -> None:
    title, *headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    assert title in {alert.name for alert in ALERTS if alert.page == page.name}
    assert tuple(headings) == HEADINGS
    parts = re.split(r"^## .*$", page.read_text(), flags=re.M)
    assert all(len(part.split()) >= 5 for part in parts)
    assert "kvscope " in parts[2]
    assert "```promql" in parts[2]
    assert parts[3].count("\n| ") >= 4, "look-alikes, and what tells each apart"


@page_of
def test_what_a_runbook_says_to_type_is_understood(page: Path) -> None:
    for line in commands(page.read_text()):
        name, *words = shlex.split(line, comments=True)
        verb = verbs.load(front.find(name))
        parser = front.Parser(prog=f"kvscope {name}")
        verb.add_arguments(parser)
        understood = parser.parse_args(words)
        parse_filter(getattr(understood, "filter", ""))


def commands(text: str) -> Iterator[str]:
    """What stands after `kvscope`: lines to type, and commands within a sentence."""
    yield from re.findall(r"^    kvscope (.*)$", text, re.M)
    yield from re.findall(r"`kvscope ([^`]*)`", text)


@text_of
def test_only_metrics_labels_and_values_that_there_are_are_asked_for(path: Path) -> None:
    text = path.read_text()
    assert set(RECORDED.findall(text)) <= {recording.name for recording in RECORDINGS}
    for name, chosen in SELECTOR.findall(RECORDED.sub("", text)):
        metric = metric_of(name)
        for label, _, value in MATCHER.findall(chosen):
            assert label in {*metric.labels, *SCRAPED, *(FACTS if metric.kind is Kind.INFO else ())}, (name, label)
            assert possible(metric, label, value), (name, label, value)


def metric_of(name: str) -> Metric:
    """The metric of a series."""
    found = METRIC.get(name) or METRIC[re.sub("_(bucket|sum|count)$", "", name)]
    assert (found.name == name) == (found.kind is not Kind.HISTOGRAM), name
    return found


def possible(metric: Metric, label: str, value: str) -> bool:
    """Whether each of the alternatives is a value that is known beforehand, where those are known."""
    if label not in metric.inner:
        return True
    known = {columns[metric.inner.index(label)] for columns in metric.columns}
    return all(any(re.fullmatch(one, each) for each in known) for one in value.split("|"))


def test_every_series_that_is_recorded_is_used() -> None:
    asked = "\n".join(alert.expr for alert in ALERTS)
    assert [each.name for each in RECORDINGS if each.name not in asked] == []

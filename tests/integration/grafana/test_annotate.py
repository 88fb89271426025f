"""`kvscope annotate` against the recorded contract."""

from __future__ import annotations

import pytest

from kvscope.dashboards.variables import TAG

from .conftest import Run
from .server import Standing


def test_a_deployment_is_marked_where_every_dashboard_looks(run: Run, grafana: Standing) -> None:
    said = run("annotate", "deployment", "router 1.9.2", "--at", "2026-11-30T02:11:40+00:00", "--tag", "router")
    assert said.code == 0, said.err
    (mark,) = grafana.kept.marks
    assert mark["tags"] == [TAG, "deployment", "router"]
    assert (mark["text"], mark["time"]) == ("router 1.9.2", 1_796_004_700_000)


def test_an_incident_has_an_end_and_is_marked_once(run: Run, grafana: Standing) -> None:
    words = ("annotate", "incident", "late dispatch", "--at", "2026-11-30T02:11:40Z", "--until", "2026-11-30T02:31:40Z")
    assert "incident marked on" in run(*words).out
    assert "incident marked already on" in run(*words).out
    (mark,) = grafana.kept.marks
    assert mark["timeEnd"] - mark["time"] == 20 * 60 * 1000


def test_now_and_a_while_ago(run: Run, grafana: Standing) -> None:
    assert run("annotate", "deployment", "now").code == 0
    assert run("annotate", "deployment", "then", "--at", "10m ago").code == 0
    now, then = (mark["time"] for mark in grafana.kept.marks)
    assert 599_000 < now - then < 660_000


def test_a_missing_permission_is_named(run: Run, grafana: Standing) -> None:
    grafana.kept.denied = {"annotations:create"}
    said = run("annotate", "incident", "x")
    assert said.code == 2
    assert "it needs annotations:create" in said.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("incident", " "), "the text is empty"),
        (("incident", "x", "--at", "yesterday"), "'yesterday' is no time"),
        (("incident", "x", "--at", "5 ago"), ""),
        (("incident", "x", "--at", "soon ago"), "is no span of time"),
        (("incident", "x", "--at", "1m ago", "--until", "2m ago"), "--until is before --at"),
        (("outage", "x"), "invalid choice"),
    ],
)
def test_words_that_make_no_mark(run: Run, grafana: Standing, words: tuple[str, ...], sentence: str) -> None:
    said = run("annotate", *words)
    assert said.code == (2 if sentence else 0)
    assert sentence in said.err
    assert len(grafana.kept.marks) == (0 if sentence else 1)

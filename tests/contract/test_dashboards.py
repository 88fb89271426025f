"""The files in dashboards/ are what the code renders."""

from __future__ import annotations

from kvscope.dashboards.rendering import files

from .tree import ROOT

FOLDER = ROOT / "dashboards"
AGAIN = "kubernetes/configmaps.yaml"
"""Holds the dashboards a second time: it is rendered, and not kept here."""
MADE = "make them anew: make dashboards"


def test_dashboards_are_as_rendered() -> None:
    there = {str(path.relative_to(FOLDER)): path.read_text() for path in FOLDER.rglob("*") if path.is_file()}
    made = {name: text for name, text in files().items() if name != AGAIN}
    assert there.keys() == made.keys(), MADE
    assert [name for name in made if there[name] != made[name]] == [], MADE

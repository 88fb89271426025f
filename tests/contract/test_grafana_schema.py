"""The dashboards in the words of Grafana's own schema, as it is published for version 12."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft7Validator

from .grafana_schema import FILE
from .tree import ROOT

SCHEMAS = {kind: Draft7Validator(schema) for kind, schema in json.loads(FILE.read_text())["types"].items()}
DASHBOARDS = sorted((ROOT / "dashboards" / "json").glob("*.json"))
KNOWN = {
    "Additional properties are not allowed ('definition' was unexpected)":
        "Grafana's editor writes it beside a variable's query, and the published types lack it",
    "Additional properties are not allowed ('expr', 'step', 'textFormat', 'titleFormat' were unexpected)":
        "fields of annotations that the Prometheus data source reads; the published types know no data source's own",
}  # fmt: skip


def faults(kind: str, value: Any) -> Iterator[str]:
    """What the schema of a kind says against a value."""
    for error in SCHEMAS[kind].iter_errors(value):
        if error.message not in KNOWN:
            yield f"{kind} at {'/'.join(map(str, error.absolute_path))}: {error.message}"


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_keeps_to_the_schema(path: Any) -> None:
    dashboard = json.loads(path.read_text())
    found = list(faults("Dashboard", dashboard))
    for panel in dashboard["panels"]:
        kind = panel["type"]
        found += faults("RowPanel" if kind == "row" else "Panel", panel)
        if kind != "row":
            found += faults(f"{kind} options", panel["options"])
        if f"{kind} fields" in SCHEMAS:
            found += faults(f"{kind} fields", panel["fieldConfig"]["defaults"].get("custom", {}))
    assert found == []
    assert len(dashboard["panels"]) > 10


def test_the_schema_finds_what_is_wrong() -> None:
    dashboard = json.loads(DASHBOARDS[0].read_text())
    dashboard["panels"][1]["gridPos"]["w"] = "12"
    dashboard["refrehs"] = "30s"
    assert len(list(faults("Dashboard", dashboard))) >= 2

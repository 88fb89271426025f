"""Queries of the runbooks, and the manifest, through promtool."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from kvscope.alerts import rendering
from kvscope.alerts.yaml_text import Data, yaml_text

from ..sources.conftest import ROOT
from .promtool import needs_promtool, promtool

QUERY = re.compile(r"```promql\n(.*?)\n```", re.S)


@needs_promtool
def test_prometheus_understands_every_query(tmp_path: Path) -> None:
    pages = sorted((ROOT / "docs/runbooks").glob("*.md"))
    rules: list[Data] = [
        {"record": f"{page.stem.replace('-', '_')}:query:n{number}", "expr": query}
        for page in pages
        for number, query in enumerate(QUERY.findall(page.read_text()))
    ]
    (tmp_path / "rules.yml").write_text(yaml_text({"groups": [{"name": "runbooks", "rules": rules}]}))
    ran = promtool("check", "rules", "rules.yml", folder=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{len(rules)} rules found" in ran.stdout
    assert len(rules) >= 2 * len(pages)


@needs_promtool
def test_the_manifest_holds_the_rule_file(tmp_path: Path) -> None:
    head, _, spec = rendering.manifest("https://runbooks.example/").partition("\nspec:\n")
    assert "apiVersion: monitoring.coreos.com/v1" in head
    assert "kind: PrometheusRule" in head
    (tmp_path / "rules.yml").write_text(textwrap.dedent(spec))
    ran = promtool("check", "rules", "rules.yml", folder=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert textwrap.dedent(spec) == rendering.rules_file("https://runbooks.example").partition("\n")[2]
    assert 'runbook_url: "https://runbooks.example/late-notice.md"' in spec

"""Rules and cases through promtool."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from kvscope.alerts.rule import Alert
from kvscope.alerts.yaml_text import yaml_text

from .case import Case, Fired, Values

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None and not os.environ.get("CI"),
    reason="promtool is not installed: apt-get install prometheus",
)


def promtool(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run it, standing in a folder."""
    return subprocess.run(["promtool", *words], cwd=folder, capture_output=True, text=True)


def complaints(groups: list[dict[str, Any]], tests: Iterable[dict[str, Any]], folder: Path) -> str:
    """What promtool has to say against it; empty if nothing. The tests have their samples at the same interval."""
    asked = list(tests)
    (folder / "rules.yml").write_text(yaml_text({"groups": groups}))
    every = {"evaluation_interval": asked[0]["interval"]}
    (folder / "tests.json").write_text(
        json.dumps({"rule_files": ["rules.yml"], **every, "tests": asked})
    )  # JSON is YAML
    ran = promtool("test", "rules", "tests.json", folder=folder)
    said = ran.stdout + ran.stderr
    assert ran.returncode == 0 or "FAILED" in said, said
    return "" if ran.returncode == 0 else said


def fires(alerts: list[Alert], case: Case, runbooks: str) -> dict[str, Any]:
    """The test that just what it says fires, in just those words. alerts: those of one name"""
    expected = [_expected(alerts, fired, runbooks) for fired in case.fires]
    rule = {"eval_time": f"{case.at}m", "alertname": alerts[0].name, "exp_alerts": expected}
    return _scraped(case) | {"alert_rule_test": [rule]}


def silent(alert: Alert, case: Case) -> dict[str, Any]:
    """The test that it does not fire."""
    query = f'ALERTS{{alertname="{alert.name}", alertstate="firing", severity="{alert.severity}"}}'
    return _scraped(case) | {"promql_expr_test": [{"expr": query, "eval_time": f"{case.at}m", "exp_samples": []}]}


def pending(alert: Alert, case: Case, there: bool) -> dict[str, Any]:
    """The test that its expression holds, for however short a time, or that it does not."""
    query = f'count(ALERTS{{alertname="{alert.name}", severity="{alert.severity}"}}) > 0'
    expected = [{"labels": "{}", "value": 1}] if there else []
    return _scraped(case) | {"promql_expr_test": [{"expr": query, "eval_time": f"{case.at}m", "exp_samples": expected}]}


def _scraped(case: Case) -> dict[str, Any]:
    series = [{"series": name, "values": _notation(values)} for name, values in case.series.items()]
    return {"name": case.name, "interval": f"{case.step}m", "input_series": series}


def _notation(values: Values) -> str:
    return " ".join("_" if value is None else f"{value:.10g}" for value in values)


def _expected(alerts: list[Alert], fired: Fired, runbooks: str) -> dict[str, Any]:
    alert = next(alert for alert in alerts if alert.severity == fired.severity)
    texts = {name: filled(getattr(alert, name), fired) for name in ("summary", "description")}
    texts["runbook_url"] = f"{runbooks}/{alert.page}"
    return {"exp_labels": {"severity": fired.severity, **fired.labels}, "exp_annotations": texts}


def filled(template: str, fired: Fired) -> str:
    """As Prometheus fills it in."""
    instance = fired.labels.get("instance", "")
    text = template.replace("{{ with $labels.instance }} at {{ . }}{{ end }}", f" at {instance}" if instance else "")
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: fired.labels[found[1]], text)
    return re.sub(r"\{\{ \$value[^}]*\}\}", fired.told, text)

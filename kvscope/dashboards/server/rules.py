"""Alerts as rules of Grafana. What Prometheus would have recorded stands in the query itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from kvscope.alerts.rule import Alert, Group, Recording

EXPRESSION = "__expr__"
"""What Grafana calls its own arithmetic where a data source is named."""
INTERVAL_S = 60
STEP = "5m"
"""Of what is computed over a past that nobody recorded."""
ANY = "is_number($A) || is_nan($A) || is_inf($A)"
"""A series is a fault, whatever its value: so Prometheus has it, while Grafana takes a 0 for all is well."""


def rule_groups(groups: Sequence[Group], folder: str, source: str, runbooks: str) -> list[dict[str, Any]]:
    """Documents of the groups that hold alerts, in a folder and asking a data source, both by uid."""
    recorded = [rule for group in groups for rule in group.rules if isinstance(rule, Recording)]
    found = []
    for group in groups:
        alerts = [rule for rule in group.rules if isinstance(rule, Alert)]
        rules = [_rule(alert, group.name, folder, source, recorded, runbooks) for alert in alerts]
        if rules:
            found.append({"title": group.name, "folderUid": folder, "interval": INTERVAL_S, "rules": rules})
    return found


def unrecorded(expr: str, recorded: Sequence[Recording]) -> str:
    """The expression with what each recorded series is in its place."""
    for rule in recorded:
        name = re.escape(rule.name)
        past = re.compile(rf"{name}\[(\w+)\]")
        expr = past.sub(lambda found, rule=rule: f"({rule.expr})[{found[1]}:{STEP}]", expr)  # type: ignore[misc]
        expr = re.sub(rf"{name}(?![\w:])", lambda _, rule=rule: f"({rule.expr})", expr)  # type: ignore[misc]
    return expr


def _rule(alert: Alert, group: str, folder: str, source: str, recorded: Sequence[Recording],
          runbooks: str) -> dict[str, Any]:  # fmt: skip
    title = f"{alert.name} ({alert.severity})"
    texts = {
        "summary": _template(alert.summary),
        "description": _template(alert.description),
        "runbook_url": f"{runbooks.rstrip('/')}/{alert.page}",
    }
    return {
        "uid": f"kvscope-{sha256(title.encode()).hexdigest()[:16]}",  # the same at every push; 40 characters at most
        "title": title, "ruleGroup": group, "folderUID": folder, "condition": "B", "for": alert.hold,
        "noDataState": "OK",  # no series is what the query gives where all is well
        "execErrState": "Error", "labels": {"severity": alert.severity.value}, "annotations": texts,
        "data": [_query(unrecorded(alert.expr, recorded), source), _any()],
    }  # fmt: skip


def _template(text: str) -> str:
    """A number has a name in Grafana."""
    return text.replace("$value", "$values.A.Value")


def _query(expr: str, source: str) -> dict[str, Any]:
    model = {"refId": "A", "expr": expr, "instant": True, "range": False}
    return {"refId": "A", "datasourceUid": source, "relativeTimeRange": {"from": 600, "to": 0}, "model": model}


def _any() -> dict[str, Any]:
    model = {"refId": "B", "type": "math", "expression": ANY}
    return {"refId": "B", "datasourceUid": EXPRESSION, "relativeTimeRange": {"from": 0, "to": 0}, "model": model}

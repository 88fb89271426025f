"""The table as Prometheus and Kubernetes take it."""

from __future__ import annotations

from kvscope.alerts.rule import Alert, Group, Recording
from kvscope.alerts.table import GROUPS
from kvscope.alerts.yaml_text import Data, yaml_text

RUNBOOKS = "docs/runbooks"
"""Where the runbooks are: a path in this tree, unless they are put where a browser finds them."""
INTERVAL = "1m"
"""How often rules are evaluated: the shortest window is five minutes."""
HEAD = """\
# Made from kvscope/alerts by `python -m kvscope.alerts {what}`, and a test holds it to that: docs/alerts.md
"""


def groups(runbooks: str = RUNBOOKS) -> list[dict[str, Data]]:
    """Groups as a rule file has them, and as the rulers of Mimir and Grafana take them."""
    return [group_data(group, runbooks) for group in GROUPS]


def rules_file(runbooks: str = RUNBOOKS) -> str:
    """What `rule_files` names."""
    return HEAD.format(what="rules") + yaml_text({"groups": groups(runbooks)})


def manifest(runbooks: str = RUNBOOKS) -> str:
    """A PrometheusRule of the Prometheus Operator."""
    names: dict[str, Data] = {"app.kubernetes.io/name": "kvscope"}
    head: dict[str, Data] = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "kvscope", "labels": names},
        "spec": {"groups": groups(runbooks)},
    }
    return HEAD.format(what="kubernetes") + yaml_text(head)


def group_data(group: Group, runbooks: str) -> dict[str, Data]:
    """One of them."""
    return {"name": group.name, "interval": INTERVAL, "rules": [_rule(rule, runbooks) for rule in group.rules]}


def _rule(rule: Recording | Alert, runbooks: str) -> dict[str, Data]:
    if isinstance(rule, Recording):
        return {"record": rule.name, "expr": rule.expr}
    texts: dict[str, Data] = {
        "summary": rule.summary,
        "description": rule.description,
        "runbook_url": f"{runbooks.rstrip('/')}/{rule.page}",
    }
    labels: dict[str, Data] = {"severity": rule.severity.value}
    return {"alert": rule.name, "expr": rule.expr, "for": rule.hold, "labels": labels, "annotations": texts}

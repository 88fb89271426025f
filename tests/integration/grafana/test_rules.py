"""Alerts as Grafana's rules have them: without recorded series they wake for the same, and for nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kvscope.alerts.recordings import RECORDINGS
from kvscope.alerts.rendering import RUNBOOKS
from kvscope.alerts.rule import Alert
from kvscope.alerts.table import ALERTS, GROUPS
from kvscope.dashboards.server.rules import rule_groups, unrecorded

from ..alerts.promtool import complaints, fires, needs_promtool, silent
from ..alerts.test_alerts import cases, rules

RECORDED = [alert for alert in ALERTS if any(rule.name in alert.expr for rule in RECORDINGS)]


def plain(alert: Alert) -> Alert:
    """The alert with the query that Grafana is given."""
    return replace(alert, when=unrecorded(alert.expr, RECORDINGS), guards=())


@needs_promtool
@pytest.mark.parametrize("alert", RECORDED, ids=lambda alert: f"{alert.name}-{alert.severity}")
def test_a_rule_fires_as_the_alert_does(alert: Alert, tmp_path: Path) -> None:
    named = [plain(each) for each in ALERTS if each.name == alert.name]
    assert not any(rule.name in each.expr for each in named for rule in RECORDINGS)
    firing = [fires(named, case, RUNBOOKS) for case in cases(alert) if case.fires]
    assert firing
    assert not complaints(rules(*named), firing, tmp_path)
    alike = [silent(plain(alert), case) for case in cases(alert) if not case.fires]
    assert alike
    assert not complaints(rules(plain(alert)), alike, tmp_path)


def test_there_are_alerts_that_use_what_is_recorded() -> None:
    assert len(RECORDED) > 4


def test_texts_name_the_number_as_grafana_does_and_runbooks_lie_where_it_is_said() -> None:
    found = [rule for group in rule_groups(GROUPS, "f", "s", "https://books/") for rule in group["rules"]]
    assert len(found) == len(ALERTS)
    for rule, alert in zip(found, ALERTS, strict=True):
        texts = rule["annotations"]
        assert texts["runbook_url"] == f"https://books/{alert.page}"
        assert "$value " not in texts["summary"]
        assert texts["summary"].replace("$values.A.Value", "$value") == alert.summary
        assert (rule["for"], rule["labels"]["severity"], rule["condition"]) == (alert.hold, alert.severity, "B")
        assert len(rule["uid"]) <= 40

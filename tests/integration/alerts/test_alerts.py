"""Each alert on synthetic series, by promtool: it fires, in these words; what looks alike does not wake anybody."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kvscope.alerts import rendering
from kvscope.alerts.recordings import RECORDINGS
from kvscope.alerts.rule import Alert, Group
from kvscope.alerts.table import ALERTS
from kvscope.alerts.yaml_text import Data

from . import engine_cases, model_cases, trust_cases
from .case import Case
from .promtool import complaints, fires, needs_promtool, promtool, silent

CASES: dict[tuple[str, str], list[Case]] = {
    ("KvscopeCoordinationBurn", "critical"): model_cases.CRITICAL,
    ("KvscopeCoordinationBurn", "warning"): model_cases.WARNING,
    ("KvscopeRegistrationLate", "warning"): model_cases.REGISTRATION,
    ("KvscopePushNotOverlapping", "warning"): model_cases.OVERLAP,
    ("KvscopeLateNotice", "warning"): model_cases.LATE,
    ("KvscopeRequestsStuck", "warning"): model_cases.STUCK,
    ("KvscopeDecodeOutOfBlocks", "critical"): engine_cases.OUT_OF_BLOCKS,
    ("KvscopeWriterStarved", "warning"): engine_cases.WRITER,
    ("KvscopeHandshakeFailing", "critical"): engine_cases.HANDSHAKE,
    ("KvscopeLeaseExpiry", "warning"): engine_cases.LEASE,
    ("KvscopeEventsLost", "warning"): engine_cases.LOST,
    ("KvscopeTransferRateFallen", "warning"): trust_cases.TRANSFER,
    ("KvscopeClockUnusable", "warning"): trust_cases.CLOCK,
    ("KvscopeBlind", "warning"): trust_cases.BLIND,
    ("KvscopeIncidentsUnsaved", "warning"): trust_cases.UNSAVED,
}
WITHOUT_DEGREES = ("KvscopeBlind", "KvscopeIncidentsUnsaved")
every_alert = pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: f"{alert.name}-{alert.severity}")


def cases(alert: Alert) -> list[Case]:
    return CASES[alert.name, alert.severity.value]


def rules(*alerts: Alert) -> list[dict[str, Data]]:
    """These, and what they need to be recorded."""
    needed = tuple(each for each in RECORDINGS if any(each.name in alert.expr for alert in alerts))
    groups = Group("recordings", needed), Group("alerts", alerts)
    return [rendering.group_data(group, rendering.RUNBOOKS) for group in groups if group.rules]


@needs_promtool
@every_alert
def test_it_fires_when_it_should_and_says_what_is_the_matter(alert: Alert, tmp_path: Path) -> None:
    firing = [case for case in cases(alert) if case.fires]
    assert firing
    named = [each for each in ALERTS if each.name == alert.name]
    assert not complaints(rules(*named), (fires(named, case, rendering.RUNBOOKS) for case in firing), tmp_path)


@needs_promtool
@every_alert
def test_what_looks_alike_wakes_nobody(alert: Alert, tmp_path: Path) -> None:
    alike = [case for case in cases(alert) if not case.fires]
    assert alike
    assert not complaints(rules(alert), (silent(alert, case) for case in alike), tmp_path)


def weakened(alert: Alert) -> Iterator[tuple[str, Alert]]:
    """The alert without one of its guards, or without its patience."""
    yield "for", replace(alert, hold="0s")
    for number, guard in enumerate(alert.guards):
        yield guard.reason, replace(alert, guards=alert.guards[:number] + alert.guards[number + 1 :])


@pytest.mark.slow
@needs_promtool
@every_alert
def test_no_guard_is_there_for_nothing(alert: Alert, tmp_path: Path) -> None:
    """Without any of them, one of the cases that must not fire does."""
    alike = [case for case in cases(alert) if not case.fires]
    for what, weak in weakened(alert):
        assert complaints(rules(weak), (silent(weak, case) for case in alike), tmp_path), what


LIMIT = re.compile(r"([<>]) ([1-9]\d*(?:\.\d+)?|0\.\d+)")


def moved(alert: Alert, wider: bool) -> Iterator[Alert]:
    """The alert with one of its thresholds at half or twice of it: so that it fires more often (`wider`), or less."""
    for limit in LIMIT.finditer(alert.when):
        factor = 0.5 if (limit[1] == ">") == wider else 2.0
        begin, end = limit.span(2)
        yield replace(alert, when=f"{alert.when[:begin]}{float(limit[2]) * factor:g}{alert.when[end:]}")


@pytest.mark.slow
@needs_promtool
@pytest.mark.parametrize("alert", [alert for alert in ALERTS if alert.name not in WITHOUT_DEGREES],
                         ids=lambda alert: f"{alert.name}-{alert.severity}")  # fmt: skip
def test_each_threshold_is_where_it_is_said_to_be(alert: Alert, tmp_path: Path) -> None:
    """With half of it, what must not fire does, with twice of it, what should does not; of what has degrees."""
    firing, alike = ([case for case in cases(alert) if bool(case.fires) is fired] for fired in (True, False))
    for weak in moved(alert, wider=True):
        assert complaints(rules(weak), (silent(weak, case) for case in alike), tmp_path), weak.when
    for strong in moved(alert, wider=False):
        named = [strong, *(each for each in ALERTS if each.name == alert.name and each != alert)]
        told = (fires(named, case, rendering.RUNBOOKS) for case in firing)
        assert complaints(rules(*named), told, tmp_path), strong.when


@needs_promtool
def test_promtool_takes_the_rule_file(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(rendering.rules_file())
    ran = promtool("check", "rules", "--lint=all", "--lint-fatal", "rules.yml", folder=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{len(RECORDINGS) + len(ALERTS)} rules found" in ran.stdout


def test_there_are_cases_of_each_alert() -> None:
    assert CASES.keys() == {(alert.name, alert.severity.value) for alert in ALERTS}

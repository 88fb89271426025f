"""All rules, by groups: files, documents and dashboards are made from these."""

from __future__ import annotations

from kvscope.alerts import engines, models, trust
from kvscope.alerts.recordings import RECORDINGS
from kvscope.alerts.rule import Alert, Group

GROUPS: tuple[Group, ...] = (
    Group("kvscope-recordings", RECORDINGS),
    Group("kvscope-requests", models.ALERTS),
    Group("kvscope-engines", engines.ALERTS),
    Group("kvscope-transfers", trust.PAIRS),
    Group("kvscope-trust", trust.TRUST),
)
ALERTS: tuple[Alert, ...] = models.ALERTS + engines.ALERTS + trust.PAIRS + trust.TRUST

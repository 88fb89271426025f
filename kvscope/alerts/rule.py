"""A recording rule and an alert, as data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """What it asks for: somebody now, or somebody in the morning."""

    CRITICAL = "critical"
    WARNING = "warning"


@dataclass(frozen=True)
class Recording:
    """A series that is computed beforehand."""

    name: str
    """level:metric:operation, where the level names the labels that are left"""
    expr: str
    meaning: str


@dataclass(frozen=True)
class Guard:
    """What must hold besides, so that what looks alike does not wake anybody."""

    expr: str
    """begins with its operator: `and on (..)` or `unless on (..)`"""
    reason: str


@dataclass(frozen=True)
class Alert:
    """One alert. The texts are templates of Prometheus: `{{ $labels.x }}`, `{{ $value }}`."""

    name: str
    severity: Severity
    when: str
    """the expression; its value is what the texts show"""
    because: str
    """why the threshold is where it is"""
    guards: tuple[Guard, ...]
    hold: str
    """how long it has to hold: `for`"""
    held: str
    """why so long"""
    summary: str
    """one line"""
    description: str
    """what it means and what to look at first, for somebody who was asleep"""

    @property
    def expr(self) -> str:
        """The expression with all its guards, a line each."""
        return "\n".join((self.when, *(guard.expr for guard in self.guards)))

    @property
    def page(self) -> str:
        """File name of its runbook, which alerts of one name share: KvscopeLateNotice -> late-notice.md."""
        words = re.findall("[A-Z][a-z]*", self.name.removeprefix("Kvscope"))
        return f"{'-'.join(words).lower()}.md"


@dataclass(frozen=True)
class Group:
    """Rules that are evaluated together, in this order."""

    name: str
    rules: tuple[Recording | Alert, ...]

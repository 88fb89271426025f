"""The table as text: the head of each runbook, and the list in docs/alerts.md. `python -m kvscope.alerts tree`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvscope.alerts.recordings import RECORDINGS
from kvscope.alerts.rule import Alert
from kvscope.alerts.table import ALERTS

BEGIN, END = "<!-- rule: made from the code, checked by a test -->", "<!-- end of rule -->"


def runbooks() -> dict[str, list[Alert]]:
    """File name of each runbook -> the alerts that it is for."""
    return {alert.page: [each for each in ALERTS if each.page == alert.page] for alert in ALERTS}


def head(alerts: Sequence[Alert]) -> str:
    """What is known of them from the code."""
    return "\n\n".join(f"{_facts(alert)}\n\n```promql\n{alert.expr}\n```" for alert in alerts)


def lists() -> str:
    """All alerts, and all series that are recorded."""
    alerts = [(f"[{alert.name}](runbooks/{alert.page})", alert.severity.value, alert.hold, alert.because)
              for alert in ALERTS]  # fmt: skip
    recorded = [(f"`{each.name}`", each.meaning) for each in RECORDINGS]
    return (
        f"{_table(('alert', 'severity', 'for', 'threshold'), alerts)}\n\n"
        f"{_table(('recorded series', 'what it is'), recorded)}"
    )


def within(page: str, text: str) -> str:
    """The page with that text between its marks. ValueError: it has none."""
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"the page lacks the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def _facts(alert: Alert) -> str:
    return _table((f"**{alert.severity}**", ""), list(_reasons(alert)))


def _reasons(alert: Alert) -> Iterator[tuple[str, str]]:
    yield "threshold", alert.because
    for guard in alert.guards:
        yield "only if", guard.reason
    yield f"for {alert.hold}", alert.held


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ("---",) * len(head), *rows))

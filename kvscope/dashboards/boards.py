"""The dashboards, in the order in which they are read."""

from __future__ import annotations

from kvscope.dashboards import commitment, engines, handoff, trust, ttft
from kvscope.dashboards.panels import Board
from kvscope.metrics.catalogue import Metric

BOARDS: tuple[Board, ...] = (ttft.BOARD, handoff.BOARD, commitment.BOARD, engines.BOARD, trust.BOARD)
UNSHOWN: dict[str, str] = {
    "kvscope_incidents_total": "counts only where incidents are saved, and what happened is in their folders",
    "kvscope_incidents_savable": "is told only where incidents are saved, and has an alert",
}
"""Metrics that no panel shows -> why."""


def named(key: str) -> Board:
    """The dashboard with that key."""
    return next(board for board in BOARDS if board.key == key)


def shown(metric: Metric) -> bool:
    """Whether a panel asks for it."""
    return any(metric.name in query.expr for board in BOARDS for panel in board.panels for query in panel.queries)

"""What Grafana would ask of a Prometheus for a dashboard: variables first, then every query with what they chose."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvscope.dashboards.boards import BOARDS
from kvscope.dashboards.document import document
from kvscope.dashboards.panels import Board, Look, Panel, Query
from tests.integration.metrics.prometheus import Prometheus

Labels = dict[str, str]
Chosen = Mapping[str, tuple[str, ...]]
"""variable -> values; none: all, by what the dashboard says that all is"""
ASKED = re.compile(r"label_values\((\w+(?:\{.*\})?), (\w+)\)")


@dataclass(frozen=True)
class Answer:
    """What one query of a panel gave."""

    board: str
    panel: Panel
    query: Query
    expr: str
    now: list[tuple[Labels, float]]
    over_time: list[Labels] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.board}: {self.panel.title} / {self.query.name}"

    @property
    def empty(self) -> bool:
        """Whether the panel has nothing to draw of it."""
        return not (self.now or self.over_time)


@dataclass(frozen=True)
class Variables:
    """The values that each variable of a dashboard has, and what stands in a query for those that are chosen."""

    values: dict[str, tuple[str, ...]]
    put: dict[str, str]


def variables(prometheus: Prometheus, board: Board, chosen: Chosen) -> Variables:
    """Asked one after the other, as each may use those before it."""
    values: dict[str, tuple[str, ...]] = {}
    put: dict[str, str] = {}
    for each in document(board)["templating"]["list"][1:]:
        name = each["name"]
        values[name] = _values(prometheus, each, put)
        picked = chosen.get(name, ())
        assert set(picked) <= set(values[name]), f"{name}: {picked} are not among {values[name]}"
        put[name] = each.get("allValue") or _either(values[name]) if not picked else _either(picked)
    return Variables(values, put)


def _values(prometheus: Prometheus, variable: Mapping[str, Any], put: Mapping[str, str]) -> tuple[str, ...]:
    if variable["type"] == "custom":
        return tuple(variable["query"].split(","))
    found = ASKED.fullmatch(replaced(variable["query"]["query"], put))
    assert found, variable["query"]
    return tuple(sorted(prometheus.label_values(found[1], found[2])))


def _either(values: tuple[str, ...]) -> str:
    """As Grafana puts several values into a query for Prometheus."""
    escaped = [re.sub(r"[\\^$*+?.()|\[\]{}]", lambda found: f"\\\\{found[0]}", value) for value in values]
    return escaped[0] if len(escaped) == 1 else f"({'|'.join(escaped)})"


def replaced(expr: str, put: Mapping[str, str]) -> str:
    """A query without variables."""
    for name in sorted(put, key=len, reverse=True):
        expr = expr.replace(f"${name}", put[name])
    assert "$" not in expr, expr
    return expr


def asked(prometheus: Prometheus, chosen: Chosen, window: str, span: str, at: float | None = None) -> Iterator[Answer]:
    """Every query of every panel, now and over time, or at one instant. window: of rates; span: all that is shown"""
    times = {"__rate_interval": window, "__range": span, "__interval": "1s"}
    for board in BOARDS:
        put = variables(prometheus, board, chosen).put | times
        for panel in board.panels:
            for query in panel.queries:
                expr = replaced(query.expr, put)
                later = prometheus.over_time(expr) if at is None and panel.look in DRAWN_OVER_TIME else []
                found = prometheus.vector(expr, at)
                yield Answer(board.key, panel, query, expr, found, [one["metric"] for one in later])


DRAWN_OVER_TIME = frozenset(Look) - {Look.TABLE, Look.MATRIX, Look.STAT}


def marks(board: Board) -> list[str]:
    """Queries that mark instants on every panel."""
    return [mark["expr"] for mark in document(board)["annotations"]["list"] if "expr" in mark]

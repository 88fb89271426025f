"""What a panel is: what it asks, what it means, from where on its value is bad and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

GREEN, ORANGE, RED = "green", "orange", "red"


class Look(StrEnum):
    """How a panel is drawn."""

    LINES = "lines"
    STACK = "stack"
    """only of what adds up: means and rates, never percentiles"""
    STAT = "stat"
    TABLE = "table"
    MATRIX = "matrix"
    """a table with prefill engines down and decode engines across"""
    HEAT = "heat"
    """buckets over time"""


class Unit(StrEnum):
    """Grafana's names of units."""

    SECONDS = "s"
    SHARE = "percentunit"
    NUMBER = "short"
    PER_SECOND = "cps"
    REQUESTS = "reqps"
    BYTES = "bytes"
    BYTE_RATE = "Bps"
    TIME = "dateTimeAsIso"


@dataclass(frozen=True)
class Limits:
    """Where a value gets worse, and why there; without numbers, why there are none."""

    reason: str
    warn: float | None = None
    bad: float | None = None
    low: bool = False
    """It is low values that are bad, and `bad` is below `warn`."""

    @property
    def steps(self) -> tuple[tuple[float | None, str], ...]:
        """(from, colour), ascending; the first has no number."""
        marks = [mark for mark in (self.warn, self.bad) if mark is not None]
        colours = [GREEN, *(ORANGE if mark == self.warn else RED for mark in marks)]
        if self.low:
            marks.reverse()
            colours.reverse()
        return tuple(zip((None, *marks), colours, strict=True))


def nothing_bad(reason: str) -> Limits:
    """No value is good or bad by itself."""
    return Limits(f"none: {reason}")


@dataclass(frozen=True)
class Query:
    """A query, and how each of its series is called (`{{label}}`)."""

    expr: str
    name: str = ""
    unit: Unit | None = None
    """of a column in a table, where it is not the panel's"""
    empty: str = ""
    """why it may give no series at all, where everything is recorded and some requests are over"""


@dataclass(frozen=True)
class Panel:
    """A panel. Its place follows from the order."""

    title: str
    text: str
    """what is shown, and how to read it"""
    unit: Unit
    limits: Limits
    queries: tuple[Query, ...]
    look: Look = Look.LINES
    width: int = 12
    """of 24"""
    height: int = 8
    nothing: str = "no complete request in this time"
    """said where there is no data"""
    decades: bool = False
    """whether the axis is logarithmic: its values lie decades apart"""
    exemplars: bool = False
    """whether single requests are shown as dots"""
    leads: str = ""
    """the dashboard that a click on a series opens"""
    repeated: str = ""
    """the variable for each of whose values there is one"""
    names: tuple[str, ...] = field(default=())
    """of a table: its label columns, in order"""


@dataclass(frozen=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Board:
    """A dashboard."""

    key: str
    """file name, and the end of its uid"""
    title: str
    text: str
    rows: tuple[Row, ...]
    prompts: bool = False
    """whether the length of prompts can be chosen"""
    stages: bool = False
    """whether a stage can be"""

    @property
    def uid(self) -> str:
        """Grafana's: the same everywhere, so that links hold."""
        return f"kvscope-{self.key}"

    @property
    def panels(self) -> tuple[Panel, ...]:
        """All of them, in order."""
        return tuple(panel for row in self.rows for panel in row.panels)

"""A case of an alert: series, when to look, and what fires then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Values = list[float | None]
"""A sample every `step` minutes; None where nothing was scraped."""
Series = Mapping[str, Values]


@dataclass(frozen=True)
class Fired:
    """One alert that fires."""

    severity: str
    labels: Mapping[str, str]
    told: str = ""
    """its value as the texts show it"""


@dataclass(frozen=True)
class Case:
    """What Prometheus has scraped, and what of it wakes somebody `at` minutes from the beginning."""

    name: str
    series: Series
    at: int
    fires: tuple[Fired, ...] = ()
    step: int = 1
    """minutes between two samples"""


def counter(*stretches: tuple[int, float], step: int = 1) -> Values:
    """Grows by so much a minute for so many minutes, and then otherwise; the first sample is 0."""
    values: list[float | None] = [0.0]
    at = 0.0
    for minutes, per_minute in stretches:
        for _ in range(0, minutes, step):
            at += per_minute * step
            values.append(at)
    return values


def gauge(*stretches: tuple[int, float]) -> Values:
    """Stands at a value for so many minutes, and then at another."""
    return [value for minutes, value in stretches for _ in range(minutes)]


def restarted(values: Values, at: int) -> Values:
    """A counter that begins at 0 again."""
    begin = values[at] or 0.0
    return values[:at] + [None if value is None else value - begin for value in values[at:]]


def gap(values: Values, begin: int, end: int) -> Values:
    """Not scraped for a while."""
    return [None if begin <= at < end else value for at, value in enumerate(values)]


def each(series: Series, change: Callable[..., Values], *where: int) -> dict[str, Values]:
    """The same of all series: `restarted` or `gap`."""
    return {name: change(values, *where) for name, values in series.items()}

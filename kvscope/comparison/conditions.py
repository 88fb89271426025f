"""Under what both sides were measured: what is the same, what differs, and what must not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from kvscope.analysis.setup import COMPARED, Setup
from kvscope.comparison.side import Side
from kvscope.probe.vocabulary import UNKNOWN


class Weight(StrEnum):
    """What a difference does to a comparison."""

    SUBJECT = "subject"
    """what such comparisons are made for: it is told, and no reason against them"""
    FLAG = "flag"
    """it explains differences by itself; beside every number it has to be known"""
    REFUSE = "refuse"
    """no number would say anything"""


SUBJECTS = frozenset({"vllm", "nixl", "patches", "connector", "mode", "placement", "dispatch"})
REFUSED = frozenset({"model"})
UNLIKE = 0.1
"""Medians and shares that differ by less are taken for the same."""
RATES_UNLIKE = 0.25


@dataclass(frozen=True)
class Condition:
    """Something of the conditions, on both sides."""

    name: str
    was: str
    now: str
    weight: Weight


def conditions(one: Side, other: Side) -> list[Condition]:
    """What differs, gravest first."""
    found = [*_settings(one.setup, other.setup), *_workload(one, other), *_manners(one, other)]
    order = (Weight.REFUSE, Weight.FLAG, Weight.SUBJECT)
    return sorted(found, key=lambda each: order.index(each.weight))


def _settings(one: Setup, other: Setup) -> Iterator[Condition]:
    for name in COMPARED:
        was, now = _told(one, name), _told(other, name)
        if was and now and was != now:
            weight = Weight.SUBJECT if name in SUBJECTS else Weight.REFUSE if name in REFUSED else Weight.FLAG
            yield Condition(name, was, now, weight)


def _told(setup: Setup, name: str) -> str:
    fact = setup.facts.get(name)
    return ", ".join(sorted(value for value, _ in fact.values)) if fact else ""


def _workload(one: Side, other: Side) -> Iterator[Condition]:
    """What was asked for. Prompts are compared among alike ones; what is not is how they came and what was answered."""
    for name, of in WORKLOAD:
        was, now = of(one), of(other)
        if np.isnan(was) or np.isnan(now):
            continue
        if abs(now - was) > (RATES_UNLIKE if name.endswith("/s") else UNLIKE) * max(was, now):
            yield Condition(name, f"{was:,.4g}", f"{now:,.4g}", Weight.FLAG)


def _median(column: str) -> Callable[[Side], float]:
    def of(side: Side) -> float:
        values = getattr(side.splits, column)
        known = values[values != UNKNOWN]
        return float(np.median(known)) if len(known) else float("nan")

    return of


def _rate(side: Side) -> float:
    span = int(side.splits.origin[-1] - side.splits.origin[0]) if len(side) > 1 else 0
    return (len(side) - 1) / span * 1e9 if span else float("nan")


WORKLOAD: tuple[tuple[str, Callable[[Side], float]], ...] = (
    ("requests/s", _rate),
    ("prompt tokens, median", _median("prompt_tokens")),
    ("output tokens, median", _median("output_tokens")),
)


def _manners(one: Side, other: Side) -> Iterator[Condition]:
    for name, of, weight in SHARES:
        was, now = of(one), of(other)
        if not np.isnan(was) and not np.isnan(now) and abs(now - was) > UNLIKE:
            yield Condition(name, f"{was:.0%}", f"{now:.0%}", weight)


def _knew(side: Side) -> float:
    """Of requests on two engines, those whose decode leg was sent knowing prefill's answer."""
    both = side.splits.knew[side.splits.knew >= 0]
    return float((both == 1).mean()) if len(both) else float("nan")


def _cached(side: Side) -> float:
    known = side.splits.cached_tokens != UNKNOWN
    return float((side.splits.cached_tokens[known] > 0).mean()) if known.any() else float("nan")


def _handed_over(side: Side) -> float:
    return float((side.splits.knew >= 0).mean()) if len(side) else float("nan")


SHARES: tuple[tuple[str, Callable[[Side], float], Weight], ...] = (
    ("decode called after prefill", _knew, Weight.SUBJECT),
    ("prompts with cached tokens", _cached, Weight.FLAG),
    ("requests on two engines", _handed_over, Weight.FLAG),
)

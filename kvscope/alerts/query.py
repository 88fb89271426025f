"""Pieces of PromQL that rules are made of."""

from __future__ import annotations

from kvscope.metrics.labels import ENGINE, GROUP, PAIR

LEVEL: dict[str, tuple[str, ...]] = {
    "model": GROUP.labels,
    "engine": ENGINE.labels,
    "pair": PAIR.labels,
    "instance": ("instance",),
}
"""Levels that sums are taken at, and the labels that are left. Several `kvscope serve` are one service."""


def labels(level: str) -> str:
    """As they stand in parentheses."""
    return ", ".join(LEVEL[level])


def total(level: str, inner: str) -> str:
    """Its sum at a level."""
    return f"sum by ({labels(level)}) ({inner})"


def rate(level: str, selector: str, window: str) -> str:
    """Per second, at a level."""
    return total(level, f"rate(kvscope_{selector}[{window}])")


def increase(level: str, selector: str, window: str) -> str:
    """Over a window, at a level. Not a whole number: Prometheus extrapolates to the window's ends."""
    return total(level, f"increase(kvscope_{selector}[{window}])")


def both(level: str, condition: str) -> str:
    """`and` of what has the same labels at a level."""
    return f"and on ({labels(level)}) {condition}"


def unless(level: str, condition: str) -> str:
    """`unless` likewise."""
    return f"unless on ({labels(level)}) {condition}"

"""Figures as the page, the paste and the evidence write them."""

from __future__ import annotations

import math

from kvscope.analysis.render.amounts import NOT_KNOWN, quantity, share
from kvscope.diagnosis.match import COUNT, RATE, RATIO, SHARE, TIME, Measure

ARROW = " -> "
LONG = 10e9
"""ns from which on people think in seconds."""


def ms(ns: float) -> str:
    """`1,312`, `4.2`, `0.35`: milliseconds."""
    if math.isnan(ns):
        return NOT_KNOWN
    value = ns / 1e6
    size = abs(value)
    return f"{value:,.0f}" if size >= 99.5 else f"{value:,.1f}" if size >= 1 else f"{value:.2f}"


def amount(value: float | None, unit: str) -> str:
    """A value with its unit, times in ms without one."""
    if value is None or math.isnan(value):
        return NOT_KNOWN
    if unit == TIME:
        return ms(value)
    if unit == SHARE:
        return share(value, 1.0)
    if unit == RATE:
        return quantity(value, "B/s")
    if unit == RATIO:
        return f"{value:.2f}"
    assert unit == COUNT
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def change(measure: Measure) -> str:
    """What a measure grew by; empty where that says nothing."""
    if measure.was is None or measure.unit != TIME or math.isnan(measure.was) or math.isnan(measure.now):
        return ""
    return f"{'+' if measure.now >= measure.was else '-'}{ms(abs(measure.now - measure.was))}"


def told(measure: Measure) -> str:
    """`4.1 -> 5.0 ms`, `26.4 -> 26.1 GB/s`, or what is now where nothing is known of before."""
    if measure.unit == TIME and max(measure.was or 0.0, measure.now) >= LONG:
        was = "" if measure.was is None else f"{measure.was / 1e9:,.1f}{ARROW}"
        return f"{was}{measure.now / 1e9:,.1f} s"
    unit = " ms" if measure.unit == TIME else ""
    now = amount(measure.now, measure.unit)
    if measure.was is None or math.isnan(measure.was):
        return f"{now}{unit}"
    return f"{amount(measure.was, measure.unit)}{ARROW}{now}{unit}"

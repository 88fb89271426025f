"""The comparison as an SVG that stands alone: both distributions of the time to first token, how far apart they lie at
each quantile, and which stages that is."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from html import escape

import numpy as np

from kvscope.analysis.render.palette import GROUND
from kvscope.comparison.differences import Difference
from kvscope.comparison.quantiles import AT, Quantiles
from kvscope.comparison.render.page import sentence
from kvscope.comparison.verdict import Verdict
from kvscope.model.stages import STAGE

WIDTH, MARGIN, PANEL, HEIGHT, TOP = 1160, 60, 480, 260, 96
ROW, NAME = 18, 170
STAGES_SHOWN = 12
ONE, OTHER, BAND, AXIS, INK = "#3d8fd1", "#d8602c", "#e9c9b6", "#777777", "#101010"
STAGES = "change of each stage on the path, ms, with its interval; bold: more than chance"
MS = 1e6


def picture(verdict: Verdict, found: Quantiles) -> Iterator[str]:
    """The SVG, in pieces."""
    stages = verdict.exposed[:STAGES_SHOWN]
    below = TOP + HEIGHT + 70
    height = below + 40 + ROW * len(stages) + 20
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
        ' font-family="ui-monospace, Menlo, Consolas, monospace" font-size="11">\n'
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n'
        + _text(MARGIN, 26, f"{verdict.one.name}  with  {verdict.other.name}", size=14, weight="bold")
    )
    for number, line in enumerate(textwrap.wrap(sentence(verdict), 150)):
        yield _text(MARGIN, 46 + 15 * number, line)
    yield from _distributions(verdict, found, MARGIN)
    yield from _apart(found, MARGIN + PANEL + 2 * MARGIN)
    yield _text(
        MARGIN, below, "change of each stage on the path, ms, with its interval; bold: more than chance", weight="bold"
    )
    yield from _stages(stages, below + 24)
    yield "</svg>\n"


def _distributions(verdict: Verdict, found: Quantiles, left: int) -> Iterator[str]:
    """TTFT by quantile, both sides."""
    low, high = _reach((found.one, found.other))
    yield from _frame(left, low, high, "TTFT, ms, by quantile")
    for name, values, colour, place in (
        (verdict.one.name, found.one, ONE, 0),
        (verdict.other.name, found.other, OTHER, 1),
    ):
        yield _curve(left, low, high, values, colour)
        yield _text(left + 8, TOP + 16 + 14 * place, name, fill=colour)


def _apart(found: Quantiles, left: int) -> Iterator[str]:
    """The difference by quantile, with its band."""
    low, high = _reach((found.low, found.high, np.zeros(1)))
    yield from _frame(left, low, high, "difference of TTFT, ms, by quantile; the band holds 95 %")
    there = [_point(left, low, high, q, ns) for q, ns in zip(AT, found.high, strict=True)]
    back = [_point(left, low, high, q, ns) for q, ns in zip(AT, found.low, strict=True)][::-1]
    yield f'<polygon points="{" ".join(there + back)}" fill="{BAND}"/>\n'
    yield _line(left, _y(low, high, 0.0), left + PANEL, _y(low, high, 0.0), AXIS, 1)
    yield _curve(left, low, high, found.apart, OTHER)


def _stages(stages: Sequence[Difference], top: int) -> Iterator[str]:
    """A line for each, from the low to the high end of its interval."""
    if not stages:
        return
    low, high = _reach([np.array([each.low, each.high]) for each in stages] + [np.zeros(1)])
    left, width = MARGIN + NAME, WIDTH - 2 * MARGIN - NAME - 150

    def x(ns: float) -> float:
        return left + (ns - low) / (high - low) * width

    yield _line(x(0), top - 14, x(0), top + ROW * len(stages) - 6, AXIS, 1)
    for number, each in enumerate(stages):
        y, colour = top + ROW * number, GROUND[STAGE[each.figure.name].cls]
        weight = "bold" if each.sure else "normal"
        value, begin, end = (f"{ns / MS:+.1f}" for ns in (each.value, each.low, each.high))
        yield _text(MARGIN, y + 4, each.figure.name, weight=weight)
        yield _line(x(each.low), y, x(each.high), y, colour, 4)
        yield f'<circle cx="{x(each.value):.1f}" cy="{y}" r="4" fill="{INK}"/>\n'
        yield _text(WIDTH - MARGIN - 130, y + 4, f"{value} ({begin} to {end})", weight=weight)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: int) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width}"/>\n'


def _frame(left: int, low: float, high: float, title: str) -> Iterator[str]:
    yield _text(left, TOP - 8, title, weight="bold")
    yield f'<rect x="{left}" y="{TOP}" width="{PANEL}" height="{HEIGHT}" fill="none" stroke="{AXIS}"/>\n'
    for share in (0.0, 0.5, 1.0):
        ns = low + share * (high - low)
        yield _text(left - 6, _y(low, high, ns) + 4, f"{ns / MS:,.0f}", anchor="end")
    for q in (0.05, 0.25, 0.5, 0.75, 0.95):
        yield _text(left + q * PANEL, TOP + HEIGHT + 16, f"p{q * 100:.0f}", anchor="middle")


def _curve(left: int, low: float, high: float, values: np.ndarray, colour: str) -> str:
    points = " ".join(_point(left, low, high, q, ns) for q, ns in zip(AT, values, strict=True))
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>\n'


def _point(left: int, low: float, high: float, q: float, ns: float) -> str:
    return f"{left + q * PANEL:.1f},{_y(low, high, ns):.1f}"


def _y(low: float, high: float, ns: float) -> float:
    return TOP + HEIGHT - (ns - low) / (high - low) * HEIGHT


def _reach(values: Sequence[np.ndarray]) -> tuple[float, float]:
    """From the least to the greatest, and a little more."""
    low, high = min(float(each.min()) for each in values), max(float(each.max()) for each in values)
    room = 0.05 * (high - low) or MS
    return low - room, high + room


def _text(x: float, y: float, text: str, **looks: str | int) -> str:
    """`looks`: size, weight, fill, anchor."""
    size, weight = looks.get("size", 11), looks.get("weight", "normal")
    look = f'font-size="{size}" font-weight="{weight}" fill="{looks.get("fill", INK)}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {look} text-anchor="{looks.get("anchor", "start")}">{escape(text)}</text>\n'

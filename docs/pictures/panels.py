"""Panels as SVG: what is in a dashboard's JSON, and what a Prometheus answered."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

UNIT, ROW, GAP, HEAD = 56.0, 30.0, 6.0, 26.0
"""Pixels of a column and a line of Grafana's grid, between panels, and of a panel's title."""
GROUND, PANEL, INK, DIM, GRID = "#16191f", "#1d2129", "#d8dce3", "#8b93a1", "#2c313b"
PALETTE = ("#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#b877d9", "#8ab8ff", "#ff7383", "#56a64b", "#e0b400", "#3274d9")
NAMED = {"green": "#73bf69", "orange": "#ff9830", "red": "#e02f44"}
Point = tuple[float, float]
Span = tuple[float, float]
"""seconds since 1970"""
Scale = Callable[[float], float]
Series = tuple[dict[str, str], list[Point]]


@dataclass(frozen=True)
class Answer:
    """What a query gave."""

    legend: str
    rows: Sequence[Series]

    def name(self, labels: dict[str, str]) -> str:
        """Of a series."""
        return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), self.legend)


@dataclass(frozen=True)
class Box:
    """A place."""

    x: float
    y: float
    w: float
    h: float


def board_svg(title: str, panels: Sequence[tuple[dict[str, Any], list[Answer]]], span: tuple[float, float]) -> str:
    """A whole dashboard, from one second to another."""
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel, _ in panels) * ROW + 40
    width = 24 * UNIT + GAP
    inside = "\n".join(part for panel, answers in panels for part in _panel(panel, answers, span))
    style = 'font-family="system-ui, \'DejaVu Sans\', sans-serif" font-size="11"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img" {style}>\n'
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="{GROUND}"/>\n'
        f"{_text(12, 24, title, INK, 16)}\n{inside}\n</svg>\n"
    )


def shown(value: float, unit: str) -> str:
    """A number for people."""
    if math.isnan(value) or math.isinf(value):
        return "-" if math.isnan(value) else "∞"
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "s":
        sizes = ((1e-3, 1e6, "µs"), (1, 1e3, "ms"), (120, 1, "s"), (math.inf, 1 / 3600, "h"))
        return next(f"{value * by:.3g} {name}" for most, by, name in sizes if abs(value) < most)
    tail = {"reqps": " req/s", "cps": " /s", "Bps": "B/s", "bytes": "B"}.get(unit, "")
    for size, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {sign}{tail.strip() if tail.startswith('B') else tail}"
    return f"{value:.3g}{' ' + tail if tail.startswith('B') else tail}"


def _panel(panel: dict[str, Any], answers: list[Answer], span: Span) -> Iterator[str]:
    place = panel["gridPos"]
    box = Box(place["x"] * UNIT + GAP, place["y"] * ROW + 36, place["w"] * UNIT - GAP, place["h"] * ROW - GAP)
    if panel["type"] == "row":
        yield _text(box.x, box.y + 19, panel["title"], INK, 13, weight="bold")
        return
    yield f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.w:.1f}" height="{box.h:.1f}" rx="3" fill="{PANEL}"/>'
    yield _text(box.x + 8, box.y + 17, _cut(panel["title"].replace("$stage", "all stages"), box.w - 16, 12), INK, 12)
    body = Box(box.x + 8, box.y + HEAD, box.w - 16, box.h - HEAD - 8)
    if not any(answer.rows for answer in answers):
        message = panel["fieldConfig"]["defaults"]["noValue"]
        yield _text(body.x + body.w / 2, body.y + body.h / 2, _cut(message, body.w, 11), DIM, 11, anchor="middle")
        return
    yield from _WAYS[panel["type"]](panel, answers, body, span)


def _colours(panel: dict[str, Any], names: Sequence[str]) -> list[str]:
    """Of each series: the class's own, or the next of the palette."""
    fixed = [(re.compile(each["matcher"]["options"].strip("/")), each["properties"][0]["value"]["fixedColor"])
             for each in panel["fieldConfig"]["overrides"] if each["matcher"]["id"] == "byRegexp"]  # fmt: skip
    free = iter(PALETTE * 9)
    return [next((colour for pattern, colour in fixed if pattern.search(name)), None) or next(free) for name in names]


def _plot(panel: dict[str, Any], answers: list[Answer], box: Box, span: Span) -> Iterator[str]:
    """Lines, or areas on each other."""
    defaults = panel["fieldConfig"]["defaults"]
    stacked = defaults.get("custom", {}).get("stacking", {}).get("mode") == "normal"
    series = [(answer.name(labels), dict(points)) for answer in answers for labels, points in answer.rows]
    series = [(name, {at: v for at, v in points.items() if math.isfinite(v)}) for name, points in series]
    times = sorted({at for _, points in series for at in points})
    lanes = _stacked(series, times) if stacked else [(name, {}, points) for name, points in series]
    top = max((value for _, _, points in lanes for value in points.values()), default=1.0) or 1.0
    legend = 14 * min(3, math.ceil(sum(len(name) * 6 + 22 for name, _ in series) / box.w))
    area = Box(box.x + 52, box.y + 2, box.w - 56, box.h - legend - 18)
    least = (
        min((v for _, _, points in lanes for v in points.values() if v > 0), default=0.0) if _decades(panel) else 0.0
    )
    x, y = _scales(area, span, least, top * 1.05)
    yield from _axes(area, span, [least, _middle(least, top * 1.05), top * 1.05], defaults["unit"], y)
    yield from _marks(panel, area, top * 1.05, y)
    colours = _colours(panel, [name for name, _ in series])
    for (_, low, high), colour in zip(lanes, colours, strict=True):
        for run in _runs(sorted(high), times):
            upper = " ".join(f"{x(at):.1f},{y(high[at]):.1f}" for at in run)
            if stacked:
                lower = " ".join(f"{x(at):.1f},{y(low[at]):.1f}" for at in reversed(run))
                yield f'<polygon points="{upper} {lower}" fill="{colour}" fill-opacity="0.75"/>'
            else:
                yield f'<polyline points="{upper}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    yield from _legend(box, legend, [name for name, _ in series], colours)


def _stacked(series: list[tuple[str, dict[float, float]]],
             times: list[float]) -> list[tuple[str, dict[float, float], dict[float, float]]]:  # fmt: skip
    base = dict.fromkeys(times, 0.0)
    lanes = []
    for name, points in series:
        high = {at: base[at] + points.get(at, 0.0) for at in times}
        lanes.append((name, base, high))
        base = high
    known = {at for _, points in series for at in points}
    return [(name, low, {at: value for at, value in high.items() if at in known}) for name, low, high in lanes]


def _runs(at: list[float], times: list[float]) -> Iterator[list[float]]:
    """Stretches without a gap."""
    gap = 2.5 * min((b - a for a, b in pairwise(times)), default=1.0)
    run: list[float] = []
    for each in at:
        if run and each - run[-1] > gap:
            yield run
            run = []
        run.append(each)
    if run:
        yield run


def _decades(panel: dict[str, Any]) -> bool:
    return bool(panel["fieldConfig"]["defaults"].get("custom", {}).get("scaleDistribution", {}).get("type") == "log")


def _middle(low: float, top: float) -> float:
    return math.sqrt(low * top) if low else top / 2


def _scales(area: Box, span: Span, low: float, top: float) -> tuple[Scale, Scale]:
    """Of time, and of values: logarithmic where they begin above 0."""
    first, last = span

    def height(value: float) -> float:
        share = math.log(max(value, low) / low) / math.log(top / low) if low else value / top
        return area.y + area.h * (1 - share)

    return lambda at: area.x + (at - first) / (last - first) * area.w, height


def _axes(area: Box, span: Span, values: Sequence[float], unit: str, y: Scale) -> Iterator[str]:
    for value in values:
        at = y(value)
        yield f'<line x1="{area.x:.1f}" x2="{area.x + area.w:.1f}" y1="{at:.1f}" y2="{at:.1f}" stroke="{GRID}"/>'
        yield _text(area.x - 4, at + 4, shown(value, unit), DIM, 10, anchor="end")
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        yield _text(
            area.x + area.w * share,
            area.y + area.h + 13,
            f"{(span[1] - span[0]) * share:.0f} s",
            DIM,
            10,
            anchor=anchor,
        )


def _marks(panel: dict[str, Any], area: Box, top: float, y: Scale) -> Iterator[str]:
    """Thresholds, where they are drawn and in sight."""
    if panel["fieldConfig"]["defaults"].get("custom", {}).get("thresholdsStyle", {}).get("mode") != "dashed":
        return
    for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]:
        if step["value"] is not None and step["value"] <= top:
            at, ink = y(step["value"]), NAMED[step["color"]]
            yield (f'<line x1="{area.x:.1f}" x2="{area.x + area.w:.1f}" y1="{at:.1f}" y2="{at:.1f}" stroke="{ink}"'
                   ' stroke-dasharray="5 4"/>')  # fmt: skip


def _legend(box: Box, height: float, names: Sequence[str], colours: Sequence[str]) -> Iterator[str]:
    x, y = box.x, box.y + box.h - height + 12
    for name, colour in zip(names, colours, strict=True):
        wide = len(name) * 6 + 22
        if x + wide > box.x + box.w and x > box.x:
            x, y = box.x, y + 14
        if y > box.y + box.h + 4:
            return
        yield f'<rect x="{x:.1f}" y="{y - 8:.1f}" width="10" height="4" fill="{colour}"/>'
        yield _text(x + 14, y - 2, name, DIM, 10)
        x += wide


def _stat(panel: dict[str, Any], answers: list[Answer], box: Box, span: Span) -> Iterator[str]:
    unit, steps = panel["fieldConfig"]["defaults"]["unit"], panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    rows = [(answer.name(labels), points[-1][1]) for answer in answers for labels, points in answer.rows]
    named = panel["options"]["textMode"] == "value_and_name"
    for number, (name, value) in enumerate(rows):
        left, wide = box.x + box.w * number / len(rows), box.w / len(rows)
        passed = [step["color"] for step in steps if step["value"] is None or value >= step["value"]]
        size = min(30.0, wide / 5)
        yield _text(
            left + wide / 2, box.y + box.h / 2 + 14, shown(value, unit), NAMED[passed[-1]], size, anchor="middle"
        )
        if named:
            yield _text(left + wide / 2, box.y + 14, _cut(name, wide, 12), DIM, 12, anchor="middle")


def _table(panel: dict[str, Any], answers: list[Answer], box: Box, span: Span) -> Iterator[str]:
    how = {each["id"]: each["options"] for each in panel["transformations"]}
    if "groupingToMatrix" in how:
        yield from _matrix(panel, answers[0], how["groupingToMatrix"], box)
        return
    defaults = panel["fieldConfig"]["defaults"]
    units = {each["matcher"]["options"]: each["properties"][0]["value"] for each in panel["fieldConfig"]["overrides"]}
    labels = [name for name in how["organize"]["indexByName"] if not name.startswith("Value")]
    rows: dict[tuple[str, ...], dict[str, float]] = {}
    for answer in answers:
        for found, points in answer.rows:
            rows.setdefault(tuple(found.get(label, "") for label in labels), {})[answer.legend] = points[-1][1]
    heads = [answer.legend for answer in answers]
    wide = box.w / (len(labels) + len(heads))
    order = sorted(rows.items(), key=lambda row: -row[1].get(heads[0], 0.0))
    for number, head in enumerate((*labels, *heads)):
        yield _text(box.x + wide * number, box.y + 12, _cut(head, wide - 6, 11), DIM, 11, weight="bold")
    for line, (key, values) in enumerate(order[: int((box.h - 16) / 15)]):
        told = [
            *key,
            *(shown(values[head], units.get(head, defaults["unit"])) if head in values else "" for head in heads),
        ]
        for number, cell in enumerate(told):
            yield _text(box.x + wide * number, box.y + 28 + line * 15, _cut(cell, wide - 6, 11), INK, 11)


def _matrix(panel: dict[str, Any], answer: Answer, how: dict[str, str], box: Box) -> Iterator[str]:
    values = {(labels[how["rowField"]], labels[how["columnField"]]): points[-1][1] for labels, points in answer.rows}
    down, across = sorted({row for row, _ in values}), sorted({column for _, column in values})
    most = max(values.values()) or 1.0
    wide, tall = box.w / (len(across) + 1), min(30.0, box.h / (len(down) + 1))
    for number, name in enumerate(across):
        yield _text(box.x + wide * (number + 1) + 6, box.y + 14, name, DIM, 11, weight="bold")
    for line, name in enumerate(down):
        at = box.y + tall * (line + 1)
        yield _text(box.x, at + 16, name, DIM, 11, weight="bold")
        for number, other in enumerate(across):
            value = values.get((name, other))
            if value is not None:
                x, depth = box.x + wide * (number + 1), 0.15 + 0.7 * value / most
                yield (f'<rect x="{x:.1f}" y="{at:.1f}" width="{wide - 2:.1f}" height="{tall - 2:.1f}"'
                       f' fill="{NAMED["red"]}" fill-opacity="{depth:.2f}"/>')  # fmt: skip
                yield _text(x + 6, at + 17, shown(value, panel["fieldConfig"]["defaults"]["unit"]), INK, 11)


def _heat(panel: dict[str, Any], answers: list[Answer], box: Box, span: Span) -> Iterator[str]:
    """Buckets are sums of all below: a cell is the difference to the bucket beneath it."""
    found = sorted(((float(labels["le"]), dict(points)) for labels, points in answers[0].rows), key=lambda row: row[0])
    times = sorted({at for _, points in found for at in points})
    cells: dict[tuple[int, float], float] = {}
    beneath = dict.fromkeys(times, 0.0)
    for number, (_, points) in enumerate(found):
        cells |= {(number, at): points.get(at, 0.0) - beneath[at] for at in times}
        beneath = {at: points.get(at, 0.0) for at in times}
    most, used = max(cells.values()) or 1.0, sorted({number for (number, _), value in cells.items() if value > 1e-9})
    bottom, top = used[0], used[-1]
    area = Box(box.x + 52, box.y + 2, box.w - 56, box.h - 18)
    first, last = span
    wide, tall = area.w / (last - first), area.h / (top - bottom + 1)
    for number in range(bottom, top + 1):
        at = area.y + area.h - (number - bottom + 1) * tall
        yield _text(area.x - 4, at + tall / 2 + 4, f"≤ {shown(found[number][0], 's')}", DIM, 10, anchor="end")
        for second in times:
            if (value := cells[number, second]) > 1e-9:
                x, depth = area.x + (second - first) * wide, 0.15 + 0.85 * value / most
                yield (f'<rect x="{x:.1f}" y="{at:.1f}" width="{wide:.1f}" height="{tall - 1:.1f}"'
                       f' fill="#ff9830" fill-opacity="{depth:.2f}"/>')  # fmt: skip
    for share, anchor in ((0.0, "start"), (1.0, "end")):
        yield _text(
            area.x + area.w * share,
            box.y + box.h - 2,
            f"{(times[-1] - times[0]) * share:.0f} s",
            DIM,
            10,
            anchor=anchor,
        )


def _text(x: float, y: float, text: str, ink: str, size: float, anchor: str = "start", weight: str = "normal") -> str:
    return (f'<text x="{x:.1f}" y="{y:.1f}" fill="{ink}" font-size="{size:.0f}" text-anchor="{anchor}"'
            f' font-weight="{weight}">{escape(text)}</text>')  # fmt: skip


def _cut(text: str, width: float, size: float) -> str:
    """As much as there is room for."""
    most = max(3, int(width / (size * 0.56)))
    return text if len(text) <= most else f"{text[: most - 2]}.."


_WAYS: dict[str, Callable[[dict[str, Any], list[Answer], Box, Span], Iterator[str]]] = {
    "timeseries": _plot, "stat": _stat, "table": _table, "heatmap": _heat,
}  # fmt: skip

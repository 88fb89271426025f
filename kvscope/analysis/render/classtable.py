"""The table of bands by class, and of bands by stage. What is printed adds up, row by row or column by column.

Bands come rounded (`rounding.rounded_band`), so that every table agrees.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.text import Text

from kvscope.analysis.bands import CLASSES, Band
from kvscope.analysis.render.amounts import Milliseconds, add_up
from kvscope.analysis.render.bars import class_bar
from kvscope.analysis.render.page import Page, cells, column_widths, fitted
from kvscope.analysis.render.palette import QUIET, STRONG, bar_style, word_style
from kvscope.model.counting import count
from kvscope.model.stages import STAGES, Class

ROOM_FOR_BARS = 12
SMALL = 0.01
"""Stages below this share of every band are folded into one row."""


def put_classes(page: Page, bands: Sequence[Band], scale: Milliseconds) -> None:
    """Bands downwards, classes across and a bar; turned on its side where the page is too narrow for that."""
    table = [_class_head(), *(_class_row(band, scale) for band in bands)]
    widths = column_widths(table)
    used = sum(widths) + 2 * (len(widths) - 1)
    if used > page.width:
        _put_turned(page, bands, scale)
        return
    room = page.width - used - 3
    cell = max(1e-9, max(band.mean_ns for band in bands) / room) if room >= ROOM_FOR_BARS else 0.0
    page.line(_head_line(table[0], widths, f"  {_mark(cell)}" if cell else "", page.width - used))
    for row, band in zip(table[1:], bands, strict=True):
        text = Text(cells(row, widths))
        text.stylize(STRONG, 0, widths[0] + 2 + widths[1])
        page.line(text + Text("   ") + class_bar(_by_class(band), cell) if cell else text)
    page.prose(_footnote(bands), style=QUIET)


def _by_class(band: Band) -> list[float]:
    return [band.class_ns(cls) for cls in CLASSES]


def _class_head() -> list[str]:
    return ["TTFT, ms", "exact", "mean", *(f"{cls.short} {cls.glyph}" for cls in CLASSES)]


def _class_row(band: Band, scale: Milliseconds) -> list[str]:
    return [band.name, *map(scale.of, (band.percentile_ns, band.mean_ns, *_by_class(band)))]


def _head_line(head: list[str], widths: list[int], mark: str, room: int) -> Text:
    text = Text(cells(head, widths), QUIET)
    at = sum(widths[:3]) + 6
    for cls, width in zip(CLASSES, widths[3:], strict=True):
        text.stylize(bar_style(cls), at + width - 1, at + width)
        at += width + 2
    return text + Text(f" {mark}" if len(mark) < room else "", QUIET)


def _mark(cell: float) -> str:
    return f"one mark = {cell / 1e6:,.3g} ms"


def _footnote(bands: Sequence[Band]) -> str:
    sizes = ", ".join(f"{band.name} {band.count:,}" for band in bands)
    return (
        f"exact: the percentile. mean and its parts, which add up: the requests around it ({sizes}). "
        "undet: submit and poll_gap, in which bytes may have moved or not, and what no stage explains."
    )


def _put_turned(page: Page, bands: Sequence[Band], scale: Milliseconds) -> None:
    heads = ["TTFT, ms", "exact", "mean", *(f" {cls.glyph} {cls}" for cls in CLASSES)]
    columns = [_class_row(band, scale) for band in bands]
    table = [[head, *row] for head, row in zip(heads, zip(*columns, strict=True), strict=True)]
    widths = column_widths(table)
    for line in table:
        page.line(cells(line, widths))
    page.prose(_footnote(bands), style=QUIET)


def put_stages(
    page: Page, bands: Sequence[Band], scale: Milliseconds, every: bool, uncertain: Collection[str] = ()
) -> None:
    """Stages downwards, bands across; each column adds up to the band's mean. `every`: fold nothing; `uncertain`:
    stages that are mostly not longer than they may be wrong by."""
    shown, folded = _chosen(bands, every)
    table = [["ms, exposed", *(band.name for band in bands)]]
    for index in shown:
        doubt = " ~" if STAGES[index].name in uncertain else ""
        table.append([_stage_label(index) + doubt, *(scale.of(band.exposed[index]) for band in bands)])
    if folded:
        sums = (scale.of(float(band.exposed[folded].sum())) for band in bands)
        table.append([f"  {count(len(folded), 'smaller stage')}", *sums])
    table.append(["= mean TTFT", *(scale.of(band.mean_ns) for band in bands)])
    fitting, gap = fitted(table, page.width)
    widths = column_widths(fitting)
    drawn = bands[min(1, len(bands) - 1)]
    room = page.width - sum(widths) - 2 * len(widths) - 1
    for number, line in enumerate(fitting):
        text = Text(cells(line, widths, gap=gap), STRONG if number == len(fitting) - 1 else "" if number else QUIET)
        if 0 < number <= len(shown):
            index = shown[number - 1]
            cls = STAGES[index].cls
            text.stylize(word_style(cls), 0, widths[0])
            text += _stage_bar(drawn, index, cls, room)
        elif number == 0 and room >= ROOM_FOR_BARS:
            text += Text(f"   at {drawn.name}", QUIET)
        page.line(text)


def put_hidden(page: Page, bands: Sequence[Band], scale: Milliseconds) -> None:
    """The same for what lay off the path."""
    shown = [index for index in range(len(STAGES)) if any(band.hidden[index] for band in bands)]
    if not shown:
        return
    table = [["ms, hidden", *(band.name for band in bands)]]
    table += [[_stage_label(index), *(scale.of(band.hidden[index]) for band in bands)] for index in shown]
    fitting, gap = fitted(table, page.width)
    widths = column_widths(fitting)
    for number, line in enumerate(fitting):
        text = Text(cells(line, widths, gap=gap), "" if number else QUIET)
        if number:
            text.stylize(word_style(STAGES[shown[number - 1]].cls), 0, widths[0])
        page.line(text)


def _chosen(bands: Sequence[Band], every: bool) -> tuple[list[int], list[int]]:
    some = [index for index in range(len(STAGES)) if any(band.exposed[index] for band in bands)]
    if every:
        return some, []
    large = [index for index in some if any(band.exposed[index] >= SMALL * band.mean_ns for band in bands)]
    folded = [index for index in some if index not in large]
    return (large, folded) if len(folded) > 1 else (some, [])


def _stage_label(index: int) -> str:
    return f"{STAGES[index].cls.glyph} {STAGES[index].name}"


def _stage_bar(band: Band, index: int, cls: Class, room: int) -> Text:
    largest = float(band.exposed.max())
    if room < ROOM_FOR_BARS or not largest:
        return Text()
    length = add_up([float(band.exposed[index])], largest / (room - 2))[0]
    return Text("   ") + Text(cls.glyph * length, bar_style(cls))

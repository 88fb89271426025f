"""The table of bands by class, and of bands by stage. What is printed adds up, row by row or column by column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from rich.text import Text

from kvscope.analysis.bands import CLASS_OF_STAGE, CLASSES, Band
from kvscope.analysis.render.amounts import Milliseconds, add_up, count
from kvscope.analysis.render.bars import class_bar
from kvscope.analysis.render.page import Page, cells, column_widths
from kvscope.analysis.render.palette import QUIET, STRONG, bar_style, word_style
from kvscope.model.stages import STAGES, Class

SHORT = {
    Class.FRONTEND: "front",
    Class.COMPUTE_WAIT: "wait",
    Class.COMPUTE_RUN: "run",
    Class.COORDINATION: "coord",
    Class.TRANSFER: "xfer",
    Class.UNDETERMINED: "undet",
}
ROOM_FOR_BARS = 16
SMALL = 0.01
"""Stages below this share of every band are folded into one row."""


@dataclass(frozen=True)
class Printed:
    """A band in whole quanta: stages, and classes as their sums, so that every table agrees."""

    band: Band
    stages: tuple[int, ...]
    hidden: tuple[int, ...]

    @property
    def classes(self) -> list[int]:
        """Quanta by class, in the table's order."""
        return [int(sum(np.array(self.stages)[CLASS_OF_STAGE == index])) for index in range(len(CLASSES))]

    @property
    def total(self) -> int:
        """Quanta of the mean TTFT."""
        return sum(self.stages)


def printed(bands: tuple[Band, ...], scale: Milliseconds) -> list[Printed]:
    """Round each band once."""
    return [Printed(band, tuple(scale.split(band.exposed)), tuple(scale.split(band.hidden))) for band in bands]


def put_classes(page: Page, rows: list[Printed], scale: Milliseconds) -> None:
    """Bands downwards, classes across and a bar; turned on its side where the page is too narrow for that."""
    table = [_class_head(), *(_class_row(row, scale) for row in rows)]
    widths = column_widths(table)
    used = sum(widths) + 2 * (len(widths) - 1)
    if used > page.width:
        _put_turned(page, rows, scale)
        return
    room = page.width - used - 3
    largest = max(row.total for row in rows)
    cell = max(1e-9, largest / room) if room >= ROOM_FOR_BARS else 0.0
    page.line(_head_line(table[0], widths, "  " + _mark(cell, scale) if cell else ""))
    for cells_of_row, row in zip(table[1:], rows, strict=True):
        text = Text(cells(cells_of_row, widths))
        text.stylize(STRONG, 0, widths[0] + 2 + widths[1])
        page.line(text + Text("   ") + class_bar(row.classes, cell) if cell else text)
    page.prose(_footnote(rows), style=QUIET)


def _class_head() -> list[str]:
    return ["TTFT, ms", "exact", "mean", *(f"{SHORT[cls]} {cls.glyph}" for cls in CLASSES)]


def _class_row(row: Printed, scale: Milliseconds) -> list[str]:
    amounts = [row.total, *row.classes]
    return [row.band.name, scale.of(row.band.percentile_ns), *map(scale.text, amounts)]


def _head_line(head: list[str], widths: list[int], mark: str) -> Text:
    text = Text(cells(head, widths), QUIET)
    at = sum(widths[:3]) + 6
    for cls, width in zip(CLASSES, widths[3:], strict=True):
        text.stylize(bar_style(cls), at + width - 1, at + width)
        at += width + 2
    return text + Text(" " + mark, QUIET)


def _mark(cell: float, scale: Milliseconds) -> str:
    return f"one mark = {cell * scale.quantum / 1e6:,.3g} ms"


def _footnote(rows: list[Printed]) -> str:
    sizes = ", ".join(f"{row.band.name} {row.band.count:,}" for row in rows)
    return (
        f"exact: the percentile. mean and its parts, which add up: the requests around it ({sizes}). "
        "undet: submit and poll_gap, in which bytes may have moved or not, and what no stage explains."
    )


def _put_turned(page: Page, rows: list[Printed], scale: Milliseconds) -> None:
    table = [["TTFT, ms", *(row.band.name for row in rows)]]
    table.append(["exact", *(scale.of(row.band.percentile_ns) for row in rows)])
    table.append(["mean", *(scale.text(row.total) for row in rows)])
    for index, cls in enumerate(CLASSES):
        table.append([f" {cls.glyph} {cls}", *(scale.text(row.classes[index]) for row in rows)])
    widths = column_widths(table)
    for line in table:
        page.line(cells(line, widths))
    page.prose(_footnote(rows), style=QUIET)


def put_stages(page: Page, rows: list[Printed], scale: Milliseconds, every: bool) -> None:
    """Stages downwards, bands across; each column adds up to the band's mean. `every`: fold nothing."""
    shown, folded = _chosen(rows, every)
    table = [["ms, exposed", *(row.band.name for row in rows)]]
    table += [[_stage_label(index), *(scale.text(row.stages[index]) for row in rows)] for index in shown]
    if folded:
        sums = (scale.text(sum(row.stages[index] for index in folded)) for row in rows)
        table.append([f"  {count(len(folded), 'smaller stage')}", *sums])
    table.append(["= mean TTFT", *(scale.text(row.total) for row in rows)])
    widths = column_widths(table)
    bar_row = rows[min(1, len(rows) - 1)]
    room = page.width - sum(widths) - 2 * len(widths) - 1
    for number, line in enumerate(table):
        text = Text(cells(line, widths), STRONG if number == len(table) - 1 else "" if number else QUIET)
        if 0 < number <= len(shown):
            index = shown[number - 1]
            cls = STAGES[index].cls
            text.stylize(word_style(cls), 0, widths[0])
            text += _stage_bar(bar_row, index, cls, room)
        elif number == 0 and room >= ROOM_FOR_BARS:
            text += Text(f"   at {bar_row.band.name}", QUIET)
        page.line(text)


def put_hidden(page: Page, rows: list[Printed], scale: Milliseconds) -> None:
    """The same for what lay off the path."""
    shown = [index for index in range(len(STAGES)) if any(row.hidden[index] for row in rows)]
    if not shown:
        return
    table = [["ms, hidden", *(row.band.name for row in rows)]]
    table += [[_stage_label(index), *(scale.text(row.hidden[index]) for row in rows)] for index in shown]
    widths = column_widths(table)
    for number, line in enumerate(table):
        text = Text(cells(line, widths), "" if number else QUIET)
        if number:
            text.stylize(word_style(STAGES[shown[number - 1]].cls), 0, widths[0])
        page.line(text)


def _chosen(rows: list[Printed], every: bool) -> tuple[list[int], list[int]]:
    some = [index for index in range(len(STAGES)) if any(row.stages[index] for row in rows)]
    if every:
        return some, []
    large = [index for index in some if any(row.stages[index] >= SMALL * row.total for row in rows)]
    folded = [index for index in some if index not in large]
    return (large, folded) if len(folded) > 1 else (some, [])


def _stage_label(index: int) -> str:
    return f"{STAGES[index].cls.glyph} {STAGES[index].name}"


def _stage_bar(row: Printed, index: int, cls: Class, room: int) -> Text:
    largest = max(row.stages)
    if room < ROOM_FOR_BARS or not largest:
        return Text()
    length = add_up([row.stages[index]], largest / (room - 2))[0]
    return Text("   ") + Text(cls.glyph * length, bar_style(cls))

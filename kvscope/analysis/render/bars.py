"""Bars made of class glyphs, one cell at a time."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from kvscope.analysis.bands import CLASSES
from kvscope.analysis.render.amounts import add_up
from kvscope.analysis.render.palette import QUIET, bar_style
from kvscope.model.stages import Class


def class_bar(parts: Sequence[float], cell: float) -> Text:
    """Parts per class, in the table's order; one cell stands for `cell` of the same unit."""
    text = Text()
    for cls, cells in zip(CLASSES, add_up(parts, cell), strict=True):
        if cells:
            text.append(cls.glyph * cells, bar_style(cls))
    return text


class Axis:
    """An interval of time laid over a number of cells."""

    def __init__(self, begin: int, end: int, width: int) -> None:
        self.begin, self.end, self.width = begin, max(end, begin + 1), width

    @property
    def cell_ns(self) -> float:
        """What one cell stands for."""
        return (self.end - self.begin) / self.width

    def column(self, t: float) -> int:
        """The cell boundary nearest to an instant, clipped to the axis."""
        return min(self.width, max(0, round((t - self.begin) / self.cell_ns)))

    def cells(self, begin: int, end: int) -> tuple[int, int]:
        """Cells [first, last) of a stretch: one at least, inside the axis."""
        first, last = self.column(begin), self.column(end)
        if last <= first:
            first = min(first, self.width - 1)
            last = first + 1
        return first, last


def stretch(axis: Axis, begin: int, end: int, cls: Class, slack_until: int | None = None) -> Text:
    """One row of a waterfall: a filled stretch, and dashes for the slack behind it."""
    text = Text(" " * axis.width)
    first, last = axis.cells(begin, end)
    row = [" "] * axis.width
    row[first:last] = cls.glyph * (last - first)
    dashes = axis.column(slack_until) if slack_until is not None else last
    for column in range(last, dashes):
        row[column] = "-"
    text = Text("".join(row))
    text.stylize(bar_style(cls), first, last)
    if dashes > last:
        text.stylize(QUIET, last, dashes)
    return text


def ruler(axis: Axis, instants: Sequence[int]) -> str | None:
    """A `^` per instant on the axis; None where there are none, or so many that they would say nothing."""
    inside = [t for t in instants if axis.begin <= t <= axis.end]
    if not inside or len(inside) > max(1, axis.width // 2):
        return None
    columns = {min(axis.width - 1, axis.column(t)) for t in inside}
    return "".join("^" if column in columns else " " for column in range(axis.width))

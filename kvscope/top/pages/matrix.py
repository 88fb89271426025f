"""A matrix of engines, a glyph for each pair: forty by sixty fit a hundred columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich.text import Text

from kvscope.analysis.render.amounts import NOT_KNOWN, Milliseconds, duration, quantity
from kvscope.analysis.render.page import Page
from kvscope.analysis.render.palette import QUIET, STRONG, WARNING
from kvscope.live.levels import LEVELS, Levels, levels_from_the_bottom, levels_from_the_top
from kvscope.live.naming import told_apart
from kvscope.live.pairs import COUNT, RATE, Measure, Pairs

GLYPHS = "-+ox%@"
"""The heavier the worse. None of them is a class's."""
STYLES = (QUIET, QUIET, "", "", STRONG, WARNING)
NO_REQUEST, UNJUDGED = " ", "~"
assert len(GLYPHS) == len(STYLES) == LEVELS

ROWS = 40
GROUP = 10
"""A blank column after so many."""
ROW_LABEL = 12
COLUMN_LABEL = 6
"""Names of columns longer than this are numbers."""
MARGIN = 11
"""Room for the figure of a row over all its pairs."""
SCALE = Milliseconds(1e9)


@dataclass(frozen=True)
class Frame:
    """The part of a matrix that is drawn, and what its engines are called."""

    rows: range
    columns: range
    row_names: Sequence[str]
    column_names: Sequence[str]
    key: str
    """how to read the names"""


def frame_of(width: int, found: Pairs, first_row: int = 0, first_column: int = 0) -> Frame:
    """ROWS rows from `first_row` on and the columns that fit from `first_column` on; earlier ones at the ends."""
    short, row_pattern = told_apart(found.prefills)
    row_names = [name[-ROW_LABEL:] for name in short]
    column_names, column_pattern = told_apart(found.decodes)
    room = width - max(map(len, row_names), default=0) - 2 - MARGIN
    columns = _part(first_column, max(1, room * GROUP // (GROUP + 1)), len(found.decodes))
    key = [f"rows {row_pattern}"] if row_pattern else []
    if max(map(len, column_names), default=0) > COLUMN_LABEL:
        column_names = [str(number) for number in range(1, len(found.decodes) + 1)]
        key.append("columns " + ", ".join(f"{column + 1} {found.decodes[column]}" for column in columns))
    elif column_pattern:
        key.append(f"columns {column_pattern}")
    return Frame(_part(first_row, ROWS, len(found.prefills)), columns, row_names, column_names, "; ".join(key))


def _part(first: int, most: int, whole: int) -> range:
    first = max(0, min(first, whole - most))
    return range(first, min(whole, first + most))


def written(measure: Measure, value: float) -> str:
    """A value in its unit."""
    if np.isnan(value):
        return NOT_KNOWN
    if measure.unit == RATE:
        return quantity(value, "B/s")
    return f"{value:,.0f}" if measure.unit == COUNT else f"{SCALE.of(value)} ms"


def put_matrix(page: Page, found: Pairs, frame: Frame) -> None:
    """The matrix, with every engine over all its pairs at the edges, and what the glyphs mean."""
    levels = _levels(found)
    label = max(map(len, (*frame.row_names, "all")))
    for letters in _downwards(frame):
        page.line(Text(" " * (label + 1) + _spaced(letters), QUIET))
    for row in frame.rows:
        cells = _cells(found, levels, found.values[row], found.requests[row], frame.columns)
        page.line(_row(frame.row_names[row].rjust(label), cells, written(found.measure, found.by_prefill[row])))
    below = _cells(found, levels, found.by_decode, found.requests.sum(axis=0), frame.columns)
    page.line(_row("all".rjust(label), below, written(found.measure, found.overall)))
    page.line()
    page.items("glyphs", _legend(found, levels))
    if frame.key:
        page.labelled("names", frame.key, QUIET)


def _levels(found: Pairs) -> Levels:
    known = found.values[~np.isnan(found.values)]
    if not len(known):
        return Levels(())
    if found.measure.low_is_worse:
        return levels_from_the_bottom(float(known.min()))
    return levels_from_the_top(float(known.max()), found.measure.unit == COUNT)


def _places(found: Pairs, levels: Levels, values: np.ndarray) -> np.ndarray:
    """Which of GLYPHS stands for each value: the last one for the worst, whichever end that is."""
    return LEVELS - 1 - levels.of(values) if found.measure.low_is_worse else levels.of(values)


def _cells(found: Pairs, levels: Levels, values: np.ndarray, requests: np.ndarray, columns: range) -> str:
    known = ~np.isnan(values)
    glyphs = np.where(requests > 0, UNJUDGED, NO_REQUEST)
    glyphs[known] = np.array(list(GLYPHS))[_places(found, levels, values[known])]
    return "".join(glyphs[columns.start : columns.stop])


def _row(label: str, cells: str, total: str) -> Text:
    spaced = _spaced(cells)
    text = Text.assemble((label, QUIET), " ", spaced, (f" {total:>{MARGIN}}", QUIET))
    for at, glyph in enumerate(spaced, len(label) + 1):
        if style := STYLES[GLYPHS.index(glyph)] if glyph in GLYPHS else "":
            text.stylize(style, at, at + 1)
    return text


def _spaced(cells: str) -> str:
    return " ".join(cells[at : at + GROUP] for at in range(0, len(cells), GROUP))


def _downwards(frame: Frame) -> Iterator[str]:
    """Names as columns of letters, the last ones on one line; as many lines whichever part is shown."""
    height = max(map(len, frame.column_names))
    names = [frame.column_names[column].rjust(height) for column in frame.columns]
    return ("".join(letters) for letters in zip(*names, strict=True))


def _legend(found: Pairs, levels: Levels) -> list[str]:
    """What each glyph stands for, and how many pairs have it."""
    known = found.values[~np.isnan(found.values)]
    counts = np.bincount(_places(found, levels, known), minlength=LEVELS)
    items = []
    for level in range(len(levels.limits) + 1):
        place = LEVELS - 1 - level if found.measure.low_is_worse else level
        items.append(f"{GLYPHS[place]} {_range(found.measure, levels, level)} ({counts[place]:,})")
    unjudged = found.pairs - len(known)
    return items + ([f"{UNJUDGED} not known ({unjudged:,})"] if unjudged else []) + ["blank: no request"]


def _range(measure: Measure, levels: Levels, level: int) -> str:
    """`200 ms to 300 ms`, `2-4`: from the first on, below the second."""
    low = levels.limits[level - 1] if level else None
    high = levels.limits[level] if level < len(levels.limits) else None
    if measure.unit == COUNT:
        return _counts(low, high)
    unit = (lambda value: quantity(value, "B/s")) if measure.unit == RATE else duration
    if low is None:
        return "0" if high is None else f"below {unit(high)}"
    return f"{unit(low)} or more" if high is None else f"{unit(low)} to {unit(high)}"


def _counts(low: float | None, high: float | None) -> str:
    first = int(low or 0)
    if high is None:
        return f"{first:,} or more" if low is not None else "0"
    return f"{first:,}" if first == high - 1 else f"{first:,}-{int(high) - 1:,}"

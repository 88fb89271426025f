"""A course of a number over time in one line of 7-bit glyphs, lowest to highest."""

from __future__ import annotations

import math
from collections.abc import Mapping

LEVELS = "_.-=+*%@"
"""From nothing to the most: the ink of a glyph grows with what it stands for."""
NOTHING = " "


def sparkline(values: Mapping[int, float], last: int, steps: int, room: int) -> str:
    """A glyph for each few of the `steps` places that end with `last`, at most `room`; the greatest of them counts.

    values: place -> figure; places without one are blank. The scale begins at 0, so that a small change looks small.
    """
    each = max(1, math.ceil(steps / max(1, room)))
    cells: dict[int, float] = {}
    for place, value in values.items():
        if last - steps < place <= last:
            cell = (last - place) // each
            cells[cell] = max(value, cells.get(cell, 0.0))
    most = max(cells.values(), default=0.0)
    return "".join(_glyph(cells.get(cell), most) for cell in reversed(range(math.ceil(steps / each))))


def _glyph(value: float | None, most: float) -> str:
    if value is None:
        return NOTHING
    return LEVELS[min(len(LEVELS) - 1, int(value / most * len(LEVELS)))] if most else LEVELS[0]

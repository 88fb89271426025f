"""Lines of text of a given width: headings, wrapped prose, columns. Never wider, whatever is put on it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from rich.text import Text

from kvscope.analysis.render.palette import HEADING, QUIET

LABEL = 14
"""Width of the labels that stand before a section's lines."""
KEPT = "\N{NO-BREAK SPACE}"


class Page:
    """Collects lines, top to bottom."""

    def __init__(self, width: int, rule: str = "-") -> None:
        self.width = width
        self.lines: list[Text] = []
        self._rule = rule

    def line(self, text: Text | str = "", style: str = "") -> None:
        """One line, cut at the page's edge."""
        made = text if isinstance(text, Text) else Text(text, style)
        made.rstrip()
        made.truncate(self.width)
        self.lines.append(made)

    def whole(self, text: Text) -> None:
        """One line that must not be cut, because somebody will copy it."""
        self.lines.append(text)

    def rule(self) -> None:
        """A line across."""
        self.line(self._rule * self.width, QUIET)

    def heading(self, title: str, remark: str = "") -> None:
        """A section's title, with what it is in a few words."""
        self.line()
        if len(title) + 2 + len(remark) > self.width:
            self.line(title, HEADING)
            self.prose(remark, style=QUIET)
        else:
            self.line(Text.assemble((title, HEADING), ("  " + remark if remark else "", QUIET)))

    def prose(self, text: str, indent: int = 0, hang: int | None = None, style: str = "") -> None:
        """A paragraph, wrapped; later lines are indented by `hang`. At a KEPT blank no line is broken."""
        hanging = indent if hang is None else hang
        wrapped = textwrap.wrap(
            _unbroken(text),
            self.width,
            initial_indent=" " * indent,
            subsequent_indent=" " * hanging,
            break_on_hyphens=False,
        )
        for piece in wrapped:
            self.line(piece.replace(KEPT, " "), style)

    def labelled(self, label: str, text: str, style: str = "") -> None:
        """A label, and wrapped text beside it."""
        room = self.width - LABEL
        for number, piece in enumerate(textwrap.wrap(_unbroken(text), room, break_on_hyphens=False) or [""]):
            self.line(Text.assemble((f"{label if not number else '':<{LABEL}}", HEADING), (piece, style)))

    def items(self, label: str, items: Iterable[str], style: str = "") -> None:
        """A label, and items two spaces apart; none is broken where it fits a line."""
        room, row = self.width - LABEL, ""
        rows: list[str] = []
        for item in items:
            if row and len(row) + 2 + len(item) > room:
                rows.append(row)
                row = ""
            row = f"{row}  {item}" if row else item
        for number, text in enumerate([*rows, row]):
            if number == 0 or text:
                self.labelled(label if number == 0 else "", text, style)


def _unbroken(text: str) -> str:
    """A line end in a sentence is of a file's name: part of it, and no white space."""
    return text.replace("\n", "\\n")


def column_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """The widest cell of each column."""
    return [max((len(cell) for cell in column), default=0) for column in zip(*rows, strict=True)]


def fitted(rows: Sequence[Sequence[str]], width: int) -> tuple[Sequence[Sequence[str]], str]:
    """A table and the gap between its columns that fit a width: a narrow gap, then the last column but one left out."""
    widths = column_widths(rows)
    for gap in ("  ", " "):
        if sum(widths) + len(gap) * (len(widths) - 1) <= width:
            return rows, gap
    return [[*row[:-2], row[-1]] for row in rows], " "


def cells(row: Sequence[str], widths: Sequence[int], left: int = 1, gap: str = "  ") -> str:
    """One row of a table: the first `left` cells to the left, the others to the right."""
    placed = [
        cell.ljust(width) if index < left else cell.rjust(width)
        for index, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return gap.join(placed)

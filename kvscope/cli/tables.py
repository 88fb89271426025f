"""Tables as plain text, for verbs that must work where nothing but Python is."""

from __future__ import annotations

from collections.abc import Sequence

from kvscope.model.controls import UNSEEN


def plain(headings: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[str] = frozenset()) -> str:
    """Columns two blanks apart; those named in `right` are set to the right."""
    lines = [headings, *([cell.translate(UNSEEN) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    return "\n".join(_line(line, headings, widths, right) for line in lines)


def _line(line: Sequence[str], headings: Sequence[str], widths: Sequence[int], right: frozenset[str]) -> str:
    cells = (
        text.rjust(width) if heading in right else text.ljust(width)
        for text, heading, width in zip(line, headings, widths, strict=True)
    )
    return "  ".join(cells).rstrip()

"""HTML of what is text: whatever a name holds, it stays one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

FIGURE = re.compile(r"([^()]+) (\(.+\) n [\d,]+(?: \*)?)")
"""A figure and what belongs to it, which goes below it."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]], wrap: int = -1, links: Sequence[str] = ()) -> str:
    """Of text. wrap: the column that may take several lines. links: HTML of a last cell for each row"""
    heads = "".join(f"<th>{escape(each)}</th>" for each in head)
    lines = [_row(row, wrap, links[number] if links else "") for number, row in enumerate(rows)]
    return f'<div class="scroll"><table>\n<tr>{heads}</tr>\n{"".join(lines)}</table></div>\n'


def _row(row: Sequence[str], wrap: int, link: str) -> str:
    looks = (' class="wrap"' if at == wrap else "" for at in range(len(row)))
    cells = "".join(f"<td{look}>{_cell(cell)}</td>" for look, cell in zip(looks, row, strict=True))
    return f"<tr>{cells}{f'<td>{link}</td>' if link else ''}</tr>\n"


def _cell(text: str) -> str:
    found = FIGURE.fullmatch(text)
    return f"{escape(found[1])}<br><small>{escape(found[2])}</small>" if found else escape(text)


def items(lines: Iterable[str], look: str = "") -> str:
    """A list of texts."""
    cls = f' class="{look}"' if look else ""
    found = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul{cls}>{found}</ul>\n"

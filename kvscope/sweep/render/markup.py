"""HTML of what is text: whatever a name holds, it stays one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def table(head: Sequence[str], rows: Iterable[Sequence[str]], wrap: int = -1, links: Sequence[str] = ()) -> str:
    """Of text. wrap: the column that may take several lines. links: HTML of a last cell for each row"""
    heads = "".join(f"<th>{escape(each)}</th>" for each in head)
    lines = [_row(row, wrap, links[number] if links else "") for number, row in enumerate(rows)]
    return f'<div class="scroll"><table>\n<tr>{heads}</tr>\n{"".join(lines)}</table></div>\n'


def _row(row: Sequence[str], wrap: int, link: str) -> str:
    looks = (' class="wrap"' if at == wrap else "" for at in range(len(row)))
    cells = "".join(f"<td{look}>{escape(cell)}</td>" for look, cell in zip(looks, row, strict=True))
    return f"<tr>{cells}{f'<td>{link}</td>' if link else ''}</tr>\n"


def items(lines: Iterable[str], look: str = "") -> str:
    """A list of texts."""
    cls = f' class="{look}"' if look else ""
    found = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul{cls}>{found}</ul>\n"

"""Names of engines in an order that a person expects, and as short as still tells them apart."""

from __future__ import annotations

import re
from collections.abc import Sequence

_PIECES = re.compile(r"\d+|[^\W\d_]+|.")


def natural(name: str) -> list[tuple[int, str]]:
    """A sort key: `d-9` before `d-10`."""
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in _PIECES.findall(name)]


def told_apart(names: Sequence[str]) -> tuple[list[str], str]:
    """(what tells the names apart, a pattern of what they share: `10.0.3.*:7100`). Words and numbers are not cut.

    The pattern is empty where nothing is shared; a name that has nothing of its own is told whole, as all then are.
    """
    pieces = [_PIECES.findall(name) for name in names]
    head = _alike(pieces)
    rests = [name[head:] for name in pieces]
    tail = _alike([rest[::-1] for rest in rests])
    short = ["".join(rest[: len(rest) - tail]) for rest in rests]
    if len(names) < 2 or not all(short) or not head + tail:
        return list(names), ""
    return short, f"{''.join(pieces[0][:head])}*{''.join(rests[0][len(rests[0]) - tail :])}"


def _alike(rows: Sequence[Sequence[str]]) -> int:
    """How many of the first pieces are the same in all rows."""
    columns = zip(*rows, strict=False)
    return next((at for at, column in enumerate(columns) if len(set(column)) > 1), min(map(len, rows), default=0))

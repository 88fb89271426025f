"""A request's id as a page shows it, and the shortest part of it that means this request and no other."""

from __future__ import annotations

import re

from kvscope.core.join import router_id
from kvscope.model.controls import celled
from kvscope.model.splits import Splits

SHORTEST = 8
LONGEST = 160
"""Characters of an id in running text: of what routers and engines make, all."""
CUT = ".."
"""Stands where an id goes on."""
_HEX = re.compile(r"[0-9a-f]{8}")


def handle_of(splits: Splits, row: int) -> str:
    """A handle of at least SHORTEST characters; the whole id where several requests share all of the router's, as much
    as a page shows where that is too long."""
    whole = splits.text(row)
    told, start = _known_by(whole)
    pieces = [told[start : start + length] for length in (SHORTEST, 2 * SHORTEST, len(told))]
    for handle in (*pieces, *(whole[-length:] for length in (2 * SHORTEST, LONGEST))):
        if SHORTEST <= len(handle) <= LONGEST and celled(handle) == handle and splits.find(handle) == [row]:
            return handle
    return shown(whole)


def brief(text: str, width: int) -> str:
    """As much of a request's id as fits, from where its handle begins: what a person types, so nothing is added."""
    told, start = _known_by(text, width)
    return celled(told[start : start + width])


def shown(text: str, longest: int = LONGEST) -> str:
    """An id, or whatever else an engine makes up, in running text: cut, with CUT, where it is longer than that."""
    return celled(text if len(text) <= longest else text[: longest - len(CUT)] + CUT)


def _known_by(text: str, width: int = 0) -> tuple[str, int]:
    """(the router's id, where in it what tells requests apart begins)."""
    told = router_id(text) if len(text) <= LONGEST else text
    found = _HEX.search(told, 0, LONGEST) if len(told) > width else None
    return told, found.start() if found else 0

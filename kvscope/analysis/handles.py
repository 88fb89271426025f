"""The shortest part of a request's id that means this request and no other: what a person types."""

from __future__ import annotations

import re

from kvscope.core.join import router_id
from kvscope.model.splits import Splits

SHORTEST = 8
_HEX = re.compile(r"[0-9a-f]{8}")


def handle_of(splits: Splits, row: int) -> str:
    """A handle of at least SHORTEST characters; the whole id where several requests share all of the router's."""
    whole = splits.text(row)
    told = router_id(whole)
    found = _HEX.search(told)
    start = found.start() if found else 0
    for length in (SHORTEST, 2 * SHORTEST, len(told)):
        handle = told[start : start + length]
        if len(handle) >= SHORTEST and splits.find(handle) == [row]:
            return handle
    return whole

"""What a field of a JSON line may hold. Whatever else it holds is refused by file and line."""

from __future__ import annotations

import json
from typing import Any

from kvscope.model.errors import InputError

SHOWN = 60
"""Characters of a wrong value that an error shows."""

# What is counted, or lasts, is never below zero, and stays summable in 64 bits. Instants and offsets may be negative.
COUNTED = frozenset(
    {
        *("tokens", "cached", "blocks", "free_blocks", "bytes", "descriptors", "requests", "folded", "lost", "earlier"),
        *("waiting", "running", "held", "connector_ns", "largest_gap", "rtt_ns", "nixl_post", "nixl_duration"),
        *("pid", "impossible", "events"),
    }
)
MOST = 2**48
_LIMITS = {"rank": (0, 0xFFFF), "peer_rank": (0, 0xFFFF), "step": (0, 0xFFFF_FFFF)} | dict.fromkeys(COUNTED, (0, MOST))


def integer(item: dict[str, Any], name: str, where: str, default: int | None = None) -> int:
    """A whole number."""
    given = item.get(name, default)
    if given is None and default is not None:
        return default
    if not isinstance(given, int) or isinstance(given, bool):
        what = "is missing" if given is None else f"is {shown(given)}"
        raise InputError(f'{where}: "{name}" {what}; an integer is expected')
    low, high = _LIMITS.get(name, (-(2**63), 2**63 - 1))
    if not low <= given <= high:
        raise InputError(f'{where}: "{name}" is {shown(given)}; it must lie between {low} and {high}')
    return given


def code(item: dict[str, Any], name: str, codes: dict[str, int], where: str, default: str | None) -> int:
    """What a word of a vocabulary stands for."""
    given = word(item, name, where) or default
    if given not in codes:
        what = "is missing" if given is None else f"is {shown(given)}"
        raise InputError(f'{where}: "{name}" {what}; it must be one of {", ".join(list(codes)[1:])}')
    return codes[given]


def word(item: dict[str, Any], name: str, where: str) -> str:
    """A text that may be absent: then it is empty."""
    given = item.get(name)
    if given is not None and not isinstance(given, str):
        raise InputError(f'{where}: "{name}" is {shown(given)}; a text is expected')
    return given or ""


def truth(item: dict[str, Any], name: str, where: str) -> bool:
    """True, or false where it is absent."""
    given = item.get(name)
    if not isinstance(given, bool | None):
        raise InputError(f'{where}: "{name}" is {shown(given)}; true is expected, or nothing')
    return bool(given)


def object_of(item: dict[str, Any], name: str, where: str) -> dict[str, Any]:
    """An object that may be absent: then it is empty."""
    given = item.get(name)
    if given is not None and not isinstance(given, dict):
        raise InputError(f'{where}: "{name}" is {shown(given)}; an object is expected')
    return given or {}


def sentences(item: dict[str, Any], name: str, where: str) -> list[str]:
    """A list of texts that may be absent: then it is empty."""
    given = item.get(name) or []
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise InputError(f'{where}: "{name}" is {shown(given)}; a list of texts is expected')
    return given


def shown(given: object) -> str:
    """A wrong value, in short."""
    text = json.dumps(given)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}.."

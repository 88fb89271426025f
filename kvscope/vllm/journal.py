"""What a patched file's contents cannot tell: the times that it had as released. It lies in the package."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from kvscope.model.errors import InputError
from kvscope.probe import regular
from kvscope.vllm.replacement import New, Times

NAME = ".kvscope-patch.json"
LIMIT_NS = 1 << 62


def read(path: Path) -> dict[str, Times]:
    """Upstream path -> times; none if there is no journal. InputError: it is damaged."""
    try:
        raw = regular.read(path)
    except FileNotFoundError:
        return {}
    held = _held(raw)
    if not isinstance(held, dict) or not all(map(_is_times, held.values())):
        raise InputError(
            f"{path} is not as kvscope wrote it; remove it and run this again: the files then keep the times they have"
        )
    return {name: (accessed, modified) for name, (accessed, modified) in held.items()}


def written(path: Path, times: Mapping[str, Times]) -> New:
    """The journal to put there."""
    return New(path, json.dumps({"times": times}, indent=1).encode())


def _held(raw: bytes) -> object:
    try:
        told = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return told.get("times") if isinstance(told, dict) else None


def _is_times(told: object) -> bool:
    return isinstance(told, list) and len(told) == 2 and all(type(at) is int and abs(at) < LIMIT_NS for at in told)

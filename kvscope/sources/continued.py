"""One process told of by several parts of a recording, one after the other -> as one that was read without a break."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def continued(info: Mapping[str, Any], first: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is said of a process, and what was said of it first: what was lost counts from there on.

    A part begins its count anew: what the rings had taken by then is `earlier` to it, of which `before` are in parts
    before it. So what was lost in all is what is left of these; and where there is one part, it is what that says.
    """
    base = _gone(first) - int(first.get("lost", 0))
    said = {name: int(first.get(name, 0)) for name in ("earlier", "before")}
    return {**info, **said, "lost": max(_gone(info) - base, 0)}


def _gone(info: Mapping[str, Any]) -> int:
    """Records that its rings took and that are in no part."""
    return int(info.get("earlier", 0)) - int(info.get("before", 0)) + int(info.get("lost", 0))

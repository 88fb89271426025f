"""What request ids are made of: the one that a router gave, and what an engine puts around it."""

from __future__ import annotations

import re
from functools import lru_cache

_RANDOM_TAIL = re.compile(r"-[0-9a-f]{8}$")
_EXTERNAL = re.compile(r"^(?:\d+_)?(?:chatcmpl-(?P<chat>.+)|cmpl-(?P<text>.+)-\d+)$")

_LATELY = 1 << 16
"""Ids remembered: a live view asks about those of all requests under way, look after look."""


@lru_cache(_LATELY)
def base_id(text: str) -> str:
    """The id without the random tail an engine gave it."""
    return _RANDOM_TAIL.sub("", text)


@lru_cache(_LATELY)
def router_id(text: str) -> str:
    """The X-Request-Id inside an engine's request id: `cmpl-X-0-0a1b2c3d`, `chatcmpl-X-0a1b2c3d`."""
    base = base_id(text)
    found = _EXTERNAL.match(base)
    return (found["chat"] or found["text"]) if found else base

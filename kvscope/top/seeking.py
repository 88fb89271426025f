"""Where a person wants a replay to go: `90s`, `1m30s`, `+10s`, `-10s`."""

from __future__ import annotations

import re
from typing import Protocol

from kvscope.model.errors import InputError

_SPAN = re.compile(r"(?:(\d+)h)?\s*(?:(\d+)m)?\s*(?:(\d+(?:\.\d+)?)s?)?")
_SCALES = (3600.0, 60.0, 1.0)


class Sought(Protocol):
    """What can be told where to go; a replay."""

    def seek(self, seconds: float) -> None:
        """So long after the begin."""

    def skip(self, seconds: float) -> None:
        """So much further; back, if below 0."""


def seek(replay: Sought, text: str) -> None:
    """Go there. InputError: no time can be read."""
    wanted = text.strip().lower()
    sign, digits = ("", wanted) if wanted[:1] not in ("+", "-") else (wanted[0], wanted[1:].strip())
    found = _SPAN.fullmatch(digits) if digits else None
    if found is None or not any(found.groups()):
        raise InputError(f"{text!r} is no time to go to; write 90s, 1m30s, +10s or -10s")
    seconds = sum(float(part) * scale for part, scale in zip(found.groups(), _SCALES, strict=True) if part)
    if sign:
        replay.skip(-seconds if sign == "-" else seconds)
    else:
        replay.seek(seconds)

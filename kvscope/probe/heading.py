"""What a recording says of itself at its beginning."""

from __future__ import annotations

import os
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from kvscope.probe import layout
from kvscope.probe.ring import boot_id, clock_pair


def new_recording() -> str:
    """A name that no other recording has: it says which files are parts of one."""
    return os.urandom(8).hex()


def heading(recording: str, part: int = 1) -> dict[str, Any]:
    """The head of a recording's `part`-th file, that begins now."""
    monotonic_ns, realtime_ns, _ = clock_pair()
    clocks = {"boot_id": boot_id(), "monotonic_ns": monotonic_ns, "realtime_ns": realtime_ns}
    return {"recording": recording, "part": part, "kvscope": kvscope_version(), "layout": layout.VERSION, **clocks}


@cache
def kvscope_version() -> str:
    """Empty where kvscope was copied, not installed. Looked for once: it takes as long as packing a thousand events."""
    try:
        return version("kvscope")
    except PackageNotFoundError:
        return ""

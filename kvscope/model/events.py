"""Events as columns: one numpy structured array plus what its keys stand for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kvscope.probe import layout

# A row per moment. `request` and `peer` are the low 64 bits of the 128-bit key in the record (0: none);
# `process` indexes `Events.processes`. `values` holds the integers `vocabulary.VALUES` names for the moment,
# `vocabulary.UNKNOWN` where absent. `t` and every other time: ns, CLOCK_MONOTONIC of the process's host.
EVENT = np.dtype(
    [
        ("t", "i8"),
        ("request", "u8"),
        ("peer", "u8"),
        ("process", "u4"),
        ("moment", "u1"),
        ("leg", "u1"),
        ("thread", "u1"),
        ("state", "u1"),
        ("rank", "u2"),
        ("peer_rank", "u2"),
        ("step", "u4"),
        ("reason", "u2"),
        ("flags", "u2"),
        ("values", "i8", (layout.VALUES,)),
    ]
)


@dataclass(frozen=True)
class Process:
    """One process that recorded: where it ran, which engine it belongs to, what it lost."""

    engine: str
    """Stable engine name (given, or host:port); all processes of an engine share it."""
    engine_id: str = ""
    """vLLM's engine id: new at each start, so the restart epoch."""
    host: str = ""
    pid: int = 0
    started: dict[str, Any] = field(default_factory=dict)
    """What `design` calls `started`: versions, connector, role, sizes. Empty when never told."""
    lost: int = 0
    """Records overwritten before they were read, since reading began."""
    earlier: int = 0
    """Records overwritten before reading began: older than anything that is here."""
    note: str = ""
    """Why this process is not instrumented, if it is not."""


@dataclass(frozen=True)
class Events:
    """Events in no particular order, with the tables their columns index."""

    rows: np.ndarray
    """shape (n,), dtype EVENT"""
    processes: tuple[Process, ...]
    texts: dict[int, str]
    """key (low 64 bits) -> text"""

    def __len__(self) -> int:
        return len(self.rows)

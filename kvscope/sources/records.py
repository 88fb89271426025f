"""Raw records as a probe wrote them -> the columns of `kvscope.model.events`, many at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kvscope.model.events import EVENT, Process
from kvscope.probe import layout

Rows = npt.NDArray[np.void]

# The sequence word, then `layout.BODY`. A key's first 8 bytes are its low 64 bits.
RECORD = np.dtype(
    [
        ("sequence", "u8"),
        ("t", "i8"),
        ("request", "<u8"),
        ("request_high", "<u8"),
        ("peer", "<u8"),
        ("peer_high", "<u8"),
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
assert RECORD.itemsize == layout.RECORD_BYTES

_SHARED = tuple(name for name in EVENT.names or () if name != "process")


def records(raw: bytes | memoryview) -> Rows:
    """Whole records as bytes -> shape (n,), dtype RECORD, without copying."""
    return np.frombuffer(raw, RECORD)


def to_rows(parts: Sequence[tuple[int, Rows]]) -> Rows:
    """(process, its records: shape (n,), dtype RECORD), one after the other -> shape (m,), dtype EVENT.

    Void records are left out. Filled in place: at a million events a second, each further copy is felt.
    """
    kept = [
        (process, found if (found["moment"] != 0).all() else found[found["moment"] != 0]) for process, found in parts
    ]
    rows = np.empty(sum(len(found) for _, found in kept), EVENT)
    at = 0
    for process, found in kept:
        here = rows[at : at + len(found)]
        at += len(found)
        for name in _SHARED:
            here[name] = found[name]
        here["process"] = process
    return rows


def low64(key: bytes) -> int:
    """The low 64 bits of a 16-byte key, as event columns hold it."""
    return int.from_bytes(key[:8], "little")


def process_of(info: Mapping[str, Any]) -> Process:
    """A process, from what its ring file's header says, its `started`, `lost` and `earlier`."""
    started = info.get("started") or {}
    return Process(
        engine=str(started.get("engine") or f"pid {info['pid']}"),
        engine_id=str(started.get("engine_id") or ""),
        host=str(info.get("boot_id", ""))[:8],
        pid=int(info["pid"]),
        started=started,
        lost=int(info.get("lost", 0)) + unrecorded(info),
        earlier=int(info.get("earlier", 0)),
        # One that records, though less than it should, is no dark one: what it lost says the rest.
        note="" if info.get("segments") else str(info.get("note") or ""),
    )


def unrecorded(info: Mapping[str, Any]) -> int:
    """Events that never came into a ring: no room, or an error inside the probe."""
    return int(info.get("refused", 0)) + int(info.get("errors", 0))

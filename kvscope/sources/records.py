"""Raw records as a probe wrote them -> the columns of `kvscope.model.events`, many at a time."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kvscope.model.events import EVENT, Process
from kvscope.probe import layout
from kvscope.probe.recording import RECORDS_PREFIX, TEXT_PREFIX
from kvscope.probe.vocabulary import REASONS, STATES, THREADS

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

_TEXT = struct.Struct("<Q8xI")
"""`recording.TEXT_PREFIX`, the key's low half a number"""
_BYTES = np.dtype((np.void, RECORD.itemsize))
_WORDS = {"thread": len(THREADS), "state": len(STATES), "reason": len(REASONS)}


def _blocks(dtype: np.dtype[np.void]) -> np.dtype[np.void]:
    """What records and events share, as three blocks of bytes: copied so, it takes a third of the time."""
    assert dtype.fields is not None
    offsets = [dtype.fields[name][1] for name in ("t", "peer", "moment")]
    return np.dtype(
        {"names": ["a", "b", "c"], "formats": ["V16", "V8", "V64"], "offsets": offsets, "itemsize": dtype.itemsize}
    )


_RECORD_BLOCKS, _BLOCKS = _blocks(RECORD), _blocks(EVENT)
assert _TEXT.size == TEXT_PREFIX.size


def records(raw: bytes | memoryview) -> Rows:
    """Whole records as bytes -> shape (n,), dtype RECORD, without copying."""
    return np.frombuffer(raw, RECORD)


def chosen(found: Rows, which: np.ndarray) -> Rows:
    """Some of the records (dtype RECORD), by a bool mask; copied as bytes: field by field it takes far longer."""
    return np.asarray(found.view(_BYTES)[which].view(RECORD))


def unpacked_records(payload: bytes) -> Rows:
    """What a records part of a recording holds: as `recording.unpacked`, twice as fast.

    Raises ValueError, struct.error or zlib.error where the part is not what it says.
    """
    _, _, n = RECORDS_PREFIX.unpack_from(payload)
    columns = np.frombuffer(zlib.decompress(payload[RECORDS_PREFIX.size :]), np.uint8)
    if len(columns) != n * layout.RECORD_BYTES:
        raise ValueError("the columns are not as long as their count says")
    rows = np.empty((n, layout.RECORD_BYTES), np.uint8)
    rows[:, :16] = columns[: 16 * n].reshape(16, n).T
    rows[:, 16:32] = columns[16 * n : 32 * n].reshape(n, 16)
    rows[:, 32:48] = columns[32 * n : 48 * n].reshape(n, 16)
    rows[:, 48:] = columns[48 * n :].reshape(-1, n).T if n else 0
    return rows.reshape(-1).view(RECORD)


def to_rows(parts: Sequence[tuple[int, Rows]]) -> Rows:
    """(process, its records: shape (n,), dtype RECORD), one after the other -> shape (m,), dtype EVENT.

    Void records are left out; a code that this version has no word for stands for nothing. Filled in place: at a
    million events a second, each further copy is felt.
    """
    kept = [
        (process, found if (found["moment"] != 0).all() else chosen(found, found["moment"] != 0))
        for process, found in parts
    ]
    rows = np.empty(sum(len(found) for _, found in kept), EVENT)
    at = 0
    for process, found in kept:
        here = rows[at : at + len(found)]
        at += len(found)
        here.view(_BLOCKS)[...] = found.view(_RECORD_BLOCKS)
        for name, words in _WORDS.items():
            here[name][here[name] >= words] = 0
        here["process"] = process
    return rows


def texts_of(payload: bytes) -> dict[int, str]:
    """What a texts part of a recording holds, by the low 64 bits of its keys: as `recording.unpacked`, twice as fast.

    Raises ValueError, struct.error or zlib.error where the part is not what it says.
    """
    raw, at, found = zlib.decompress(payload), 0, {}
    while at < len(raw):
        key, length = _TEXT.unpack_from(raw, at)
        at += _TEXT.size
        found[key] = raw[at : at + length].decode("utf-8", "replace")
        at += length
    return found


def text_keys_of(payload: bytes) -> list[int]:
    """The low 64 bits of the keys in a texts part of a recording, each once; it raises what `texts_of` raises."""
    raw, at, found = zlib.decompress(payload), 0, list[int]()
    while at < len(raw):
        key, length = _TEXT.unpack_from(raw, at)
        at += _TEXT.size + length
        found.append(key)
    return list(dict.fromkeys(found))


def low64(key: bytes) -> int:
    """The low 64 bits of a 16-byte key, as event columns hold it."""
    return int.from_bytes(key[:8], "little")


def process_of(info: Mapping[str, Any]) -> Process:
    """A process, from what its ring file's header says, its `started`, `lost` and `earlier`."""
    started = info.get("started") or {}
    return Process(
        engine=str(started.get("engine") or f"pid {info.get('pid', 0)}"),
        engine_id=str(started.get("engine_id") or ""),
        host=str(info.get("boot_id", ""))[:8],
        pid=int(info.get("pid", 0)),
        started=started,
        lost=int(info.get("lost", 0)) + unrecorded(info),
        earlier=max(int(info.get("earlier", 0)) - before_in(info), 0),
        before=before_in(info),
        # One that records, though less than it should, is no dark one: what it lost says the rest.
        note="" if info.get("segments") else str(info.get("note") or ""),
        wall_ns=_wall_ns(info),
        ended=info.get("alive") is False,
        off=info.get("on") is False,
    )


def before_in(info: Mapping[str, Any]) -> int:
    """Records of it that earlier parts of the same recording hold."""
    return int(info.get("before", 0))


def _wall_ns(info: Mapping[str, Any]) -> int | None:
    pair = info.get("realtime_ns"), info.get("monotonic_ns")
    return int(pair[0]) - int(pair[1]) if pair[0] and pair[1] else None


def unrecorded(info: Mapping[str, Any]) -> int:
    """Events that never came into a ring: no room, or an error inside the probe."""
    return int(info.get("refused", 0)) + int(info.get("errors", 0))

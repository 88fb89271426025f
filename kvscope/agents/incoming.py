"""What an agent sent, unpacked and checked: anybody who has the token may send anything. Standard library only."""

from __future__ import annotations

import io
import struct
import zlib
from dataclasses import dataclass, field
from typing import Any

from kvscope.agents.batch import MOST_RECORDS, key_of
from kvscope.probe.recording import (
    HEAD,
    MARK,
    PROCESS,
    RECORDS,
    RECORDS_PREFIX,
    TEXTS,
    Frame,
    Frames,
    HeadPart,
    MarkPart,
    ProcessPart,
    RecordingError,
    TextsPart,
    from_columns,
    unpacked,
)
from kvscope.probe.recording import SIZE as RECORD_BYTES

MOST_TEXT_BYTES = 32 << 20
"""Of a part with texts, unpacked."""


class NoBatchError(ValueError):
    """It is none. The message says why."""


class OtherVersionError(NoBatchError):
    """It is of a version that this one does not read."""


@dataclass
class Incoming:
    """An envelope, and the batch in it, if there is one."""

    envelope: dict[str, Any]
    recording: str = ""
    part: int = 0
    name: str = ""
    boot_id: str = ""
    processes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """process -> what the batch says of it"""
    raw: dict[str, bytes] = field(default_factory=dict)
    """process -> records"""
    texts: list[tuple[bytes, str]] = field(default_factory=list)
    rings: dict[str, Any] = field(default_factory=dict)

    @property
    def has_batch(self) -> bool:
        """Whether there is anything in it to be taken."""
        return self.part > 0

    def held(self, key: str) -> int:
        """Records of a process."""
        return len(self.raw.get(key, b"")) // RECORD_BYTES


def incoming(body: bytes) -> Incoming:
    """NoBatchError: it cannot be taken."""
    try:
        frames = Frames(io.BytesIO(body))
    except RecordingError as error:
        raise (OtherVersionError if "version" in str(error) else NoBatchError)(str(error)) from None
    found: Incoming | None = None
    keys = dict[int, str]()
    for frame in frames:
        if found is None:
            found = Incoming(_envelope(frame))
        else:
            _add(found, frame, keys)
    if frames.bad or frames.cut or found is None:
        raise NoBatchError("it is damaged" if frames.bad or frames.cut else "nothing is in it")
    if found.processes and not found.has_batch:
        raise NoBatchError("it does not say which batch it is")
    return found


def _envelope(frame: Frame) -> dict[str, Any]:
    part = unpacked(frame.kind, frame.payload) if frame.kind == MARK else None
    if not isinstance(part, MarkPart) or not isinstance(part.info.get("agent"), dict):
        raise NoBatchError("it does not begin with an envelope")
    return part.info


def _add(found: Incoming, frame: Frame, keys: dict[int, str]) -> None:
    if frame.kind == RECORDS:
        _add_records(found, frame.payload, keys)
        return
    if frame.kind == TEXTS and _unpacked_size(frame.payload) > MOST_TEXT_BYTES:
        raise NoBatchError("its texts are longer than any are")
    part = unpacked(frame.kind, frame.payload) if frame.kind in (HEAD, PROCESS, TEXTS, MARK) else None
    match part:
        case HeadPart({"recording": str(recording), "part": int(number), "boot_id": str(boot_id), **more}) if (
            number > 0
        ):
            found.recording, found.part, found.boot_id = recording, number, boot_id
            found.name = str(more.get("agent", ""))
        case ProcessPart(number, info):
            keys[number] = key_of(info)
            found.processes[keys[number]] = {name: value for name, value in info.items() if name != "process"}
        case TextsPart(pairs):
            found.texts += pairs
        case MarkPart({"rings": dict(rings)}):
            found.rings = rings
        case None if frame.kind not in (HEAD, PROCESS, TEXTS, MARK):
            return
        case _:
            raise NoBatchError("a part of it is not what it says")


def _add_records(found: Incoming, payload: bytes, keys: dict[int, str]) -> None:
    try:
        number, _, count = RECORDS_PREFIX.unpack_from(payload)
        if number not in keys or count > MOST_RECORDS:
            raise NoBatchError("it holds records of nobody, or more than a batch does")
        columns = _bounded(payload[RECORDS_PREFIX.size :], count * RECORD_BYTES)
        found.raw[keys[number]] = found.raw.get(keys[number], b"") + from_columns(columns, count)
    except (struct.error, zlib.error, ValueError) as error:
        raise NoBatchError(str(error)) from None


def _bounded(packed: bytes, most: int) -> bytes:
    """Unpacked, up to one byte more than may be."""
    return zlib.decompressobj().decompress(packed, most + 1)


def _unpacked_size(packed: bytes) -> int:
    try:
        return len(_bounded(packed, MOST_TEXT_BYTES))
    except zlib.error:
        return 0

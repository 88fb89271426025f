"""The recording: what rings held, in a file that can be read while it is written and after a crash.

    file    8 bytes "KVSCREC\\n", u16 version, u8 byte order of the records (0 little, 1 big), 5 bytes 0
    part    4 bytes 0x89 "KVP", u8 kind, 3 bytes 0, u32 payload length, u32 payload crc32,
            u32 crc32 of the 16 bytes before; then the payload
    kinds   1 process   JSON, a later one of the same "process" number replacing an earlier one: who it is,
                        what it said of itself, its clock pair, what was lost so far
            2 records   u32 process, u8 thread role, 3 bytes 0, u32 count; then zlib of the columns
            3 texts     zlib of, for each, 16-byte key, u32 length, UTF-8
            4 end       JSON: totals. A recording without it was cut, or is still being written
    All framing is little-endian.

* Parts stand alone: a reader stops at the last whole one, and after a bad one looks for the next magic.
  The header has a checksum of its own, so that a damaged length does not swallow what follows.
* Records are stored by column, since a column resembles itself more than a record does: numbers byte by
  byte (high bytes are nearly constant), keys whole (their bytes are random, but the same key returns
  within reach of zlib's window). About 15 bytes an event in parts of thousands, 25 in parts of a dozen. Storing
  times as differences saves one more and costs four times the reading.
* Nothing but the standard library: a recording can be made in an image that holds nothing else.
"""

from __future__ import annotations

import json
import struct
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, TypeAlias

from kvscope.probe import layout

FILE_MAGIC = b"KVSCREC\n"
VERSION = 1
FILE_HEADER = struct.Struct("<8sHB5x")

PART_MAGIC = b"\x89KVP"
PART_HEADER = struct.Struct("<4sB3xII")
HEADER_CRC = struct.Struct("<I")
PART_PREFIX = PART_HEADER.size + HEADER_CRC.size

PROCESS, RECORDS, TEXTS, END = 1, 2, 3, 4
RECORDS_PREFIX = struct.Struct("<IB3xI")
TEXT_PREFIX = struct.Struct("<16sI")

LEVEL = 4  # level 6 saves 3 % and takes twice the time
READ_BYTES = 1 << 20
SIZE = layout.RECORD_BYTES

# A record is 8 bytes of sequence, 8 of time, two 16-byte keys, then numbers.
_BEFORE_KEYS, _AFTER_KEYS = range(16), range(48, SIZE)
_KEYS = struct.Struct(f"16x16s16s{len(_AFTER_KEYS)}x")


class RecordingError(ValueError):
    """A file that is not a recording this version reads. The message says why."""


@dataclass(frozen=True)
class ProcessPart:
    """What is known of a process by now."""

    process: int
    info: dict[str, Any]


@dataclass(frozen=True)
class RecordsPart:
    """Records of one thread's ring, in order, as `layout` describes them."""

    process: int
    thread: int
    """Code of the role of the ring's thread; each record carries its own too."""
    raw: bytes


@dataclass(frozen=True)
class TextsPart:
    """Texts, each with the 16-byte key that records carry."""

    pairs: list[tuple[bytes, str]]


@dataclass(frozen=True)
class EndPart:
    """The recording was ended on purpose."""

    info: dict[str, Any]


Part: TypeAlias = ProcessPart | RecordsPart | TextsPart | EndPart


class Writer:
    """Appends parts to a binary file, a pipe too; each is flushed, so that a reader sees whole ones."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        file.write(FILE_HEADER.pack(FILE_MAGIC, VERSION, sys.byteorder == "big"))

    def process(self, process: int, info: dict[str, Any]) -> None:
        """Say who process number `process` is, or what has changed."""
        self._part(PROCESS, json.dumps(info | {"process": process}, default=str).encode())

    def records(self, process: int, thread: int, raw: bytes) -> None:
        """Keep whole records, as `reader.Segment.drain` gives them; nothing if there are none."""
        if raw:
            prefix = RECORDS_PREFIX.pack(process, thread, len(raw) // SIZE)
            self._part(RECORDS, prefix + zlib.compress(to_columns(raw), LEVEL))

    def texts(self, pairs: list[tuple[bytes, str]]) -> None:
        """Keep texts; nothing if there are none."""
        if pairs:
            encoded = ((key, text.encode()) for key, text in pairs)
            raw = b"".join(TEXT_PREFIX.pack(key, len(text)) + text for key, text in encoded)
            self._part(TEXTS, zlib.compress(raw, LEVEL))

    def end(self, info: dict[str, Any]) -> None:
        """Say that this is all. Leaves the file open."""
        self._part(END, json.dumps(info, default=str).encode())

    def _part(self, kind: int, payload: bytes) -> None:
        header = PART_HEADER.pack(PART_MAGIC, kind, len(payload), zlib.crc32(payload))
        self._file.write(b"".join((header, HEADER_CRC.pack(zlib.crc32(header)), payload)))
        self._file.flush()


def to_columns(raw: bytes) -> bytes:
    """Records as columns: the same bytes in an order that compresses."""
    keys = list(_KEYS.iter_unpack(raw))
    return b"".join(
        (
            *(raw[at::SIZE] for at in _BEFORE_KEYS),
            *(key for key, _ in keys),
            *(peer for _, peer in keys),
            *(raw[at::SIZE] for at in _AFTER_KEYS),
        )
    )


def from_columns(columns: bytes, count: int) -> bytes:
    """The records that `to_columns` was given. Raises ValueError if the length is not theirs."""
    if len(columns) != count * SIZE:
        raise ValueError("the columns are not as long as their count says")
    raw = bytearray(count * SIZE)
    for at in (*_BEFORE_KEYS, *_AFTER_KEYS):
        raw[at::SIZE] = columns[at * count : (at + 1) * count]
    if count:
        words = memoryview(raw).cast("Q")
        for at in (16, 32):
            keys = memoryview(columns)[at * count : (at + 16) * count].cast("Q")
            words[at // 8 :: SIZE // 8], words[at // 8 + 1 :: SIZE // 8] = keys[::2], keys[1::2]
    return bytes(raw)


class Parts(Iterator[Part]):
    """The parts of a recording, in the order they were written; what was skipped is counted."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._buffer = file, bytearray()
        self._source = self._read()
        self.bad = 0
        """Stretches that were damaged or of an unknown kind, and skipped."""
        self.cut = False
        """Whether the file stopped inside a part."""
        _check_header(self._take(FILE_HEADER.size) or bytes(self._buffer))

    def __next__(self) -> Part:
        return next(self._source)

    def _read(self) -> Iterator[Part]:
        while self._fill(PART_PREFIX):
            length = _payload_length(self._buffer)
            if length is None:
                self._skip()
                continue
            if not self._fill(PART_PREFIX + length):
                break
            whole = self._take(PART_PREFIX + length)
            part = _decoded(whole)
            if part is None:
                self.bad += 1
            else:
                yield part
        self.cut = bool(self._buffer)

    def _skip(self) -> None:
        """Go to the next magic after this place."""
        self.bad += 1
        while (at := self._buffer.find(PART_MAGIC, 1)) < 0:
            del self._buffer[: 1 - len(PART_MAGIC)]
            if not self._fill(len(self._buffer) + 1):
                self._buffer.clear()
                return
        del self._buffer[:at]

    def _fill(self, size: int) -> bool:
        while len(self._buffer) < size:
            more = self._file.read(READ_BYTES)
            if not more:
                return False
            self._buffer += more
        return True

    def _take(self, size: int) -> bytes:
        if not self._fill(size):
            return b""
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken


def parts(file: IO[bytes]) -> Parts:
    """Read a recording, from a file or a pipe. Raises RecordingError if it is none."""
    return Parts(file)


def _check_header(raw: bytes) -> None:
    if raw[: len(FILE_MAGIC)] != FILE_MAGIC or len(raw) < FILE_HEADER.size:
        raise RecordingError("not a kvscope recording")
    _, version, big = FILE_HEADER.unpack(raw)
    if version != VERSION:
        raise RecordingError(f"recording of version {version}, this reader knows {VERSION}")
    if bool(big) != (sys.byteorder == "big"):
        raise RecordingError("recorded on a machine of the other byte order")


def _payload_length(buffer: bytearray) -> int | None:
    """The length that the part header at the buffer's start gives; None if there is no sound header."""
    magic, _, length, _ = PART_HEADER.unpack_from(buffer)
    (crc,) = HEADER_CRC.unpack_from(buffer, PART_HEADER.size)
    sound = magic == PART_MAGIC and crc == zlib.crc32(buffer[: PART_HEADER.size])
    return int(length) if sound else None


def _decoded(whole: bytes) -> Part | None:
    _, kind, _, crc = PART_HEADER.unpack_from(whole)
    payload = whole[PART_PREFIX:]
    if crc != zlib.crc32(payload):
        return None
    try:
        return _part(kind, payload)
    except (ValueError, KeyError, TypeError, struct.error, zlib.error):
        return None


def _part(kind: int, payload: bytes) -> Part | None:
    if kind == PROCESS:
        info = json.loads(payload)
        return ProcessPart(int(info["process"]), info)
    if kind == RECORDS:
        process, thread, count = RECORDS_PREFIX.unpack_from(payload)
        return RecordsPart(process, thread, from_columns(zlib.decompress(payload[RECORDS_PREFIX.size :]), count))
    if kind == TEXTS:
        return TextsPart(list(_pairs(zlib.decompress(payload))))
    return EndPart(json.loads(payload)) if kind == END else None


def _pairs(raw: bytes) -> Iterator[tuple[bytes, str]]:
    at = 0
    while at < len(raw):
        key, length = TEXT_PREFIX.unpack_from(raw, at)
        at += TEXT_PREFIX.size
        yield key, raw[at : at + length].decode("utf-8", "replace")
        at += length

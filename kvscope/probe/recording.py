"""The recording: what rings held, in a file that can be read while it is written and after a crash.

    file    8 bytes "KVSCREC\\n", u16 version, u8 byte order of the records (0 little, 1 big), 5 bytes 0
    part    4 bytes 0x89 "KVP", u8 kind, 3 bytes 0, u32 payload length, u32 payload crc32,
            u32 crc32 of the 16 bytes before; then the payload
    kinds   1 process   JSON, a later one of the same "process" number replacing an earlier one: who it is,
                        what it said of itself, its clock pair, what was lost so far
            2 records   u32 process, u8 thread role (0: of several), 3 bytes 0, u32 count; then zlib of the columns
            3 texts     zlib of, for each, 16-byte key, u32 length, UTF-8
            4 end       JSON: totals. A recording without it was cut, or is still being written
            5 mark      JSON: the writer's clock, and how far it has read each ring: only where somebody follows
                        while it is written, who can then tell the time, and go on from there after a break
            6 head      JSON, at the beginning: which recording this is a part of, the how many-th, by which version,
                        and the writer's clocks then
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
from typing import IO, Any, Protocol, TypeAlias

from kvscope.probe import layout

FILE_MAGIC = b"KVSCREC\n"
VERSION = 1
FILE_HEADER = struct.Struct("<8sHB5x")

PART_MAGIC = b"\x89KVP"
PART_HEADER = struct.Struct("<4sB3xII")
HEADER_CRC = struct.Struct("<I")
PART_PREFIX = PART_HEADER.size + HEADER_CRC.size

PROCESS, RECORDS, TEXTS, END, MARK, HEAD = 1, 2, 3, 4, 5, 6
SEVERAL = 0
"""In place of a thread's role: the records are of more than one."""
RECORDS_PREFIX = struct.Struct("<IB3xI")
TEXT_PREFIX = struct.Struct("<16sI")

SAID: dict[str, type] = {
    **dict.fromkeys(("process", "pid", "start_ticks", "monotonic_ns", "realtime_ns", "segments"), int),
    **dict.fromkeys(("errors", "refused", "lost", "earlier", "before"), int),
    **dict.fromkeys(("boot_id", "note"), str),
    "started": dict,
}
"""What a reader needs of a process -> its type, where it is said."""
LARGEST = 2**63
"""No number that is said is as large: it would be no time, count or id of this world."""

LEVEL = 4  # level 6 saves 3 % and takes twice the time
READ_BYTES = 1 << 20
SIZE = layout.RECORD_BYTES

# A record is 8 bytes of sequence, 8 of time, two 16-byte keys, then numbers.
_TIME = range(8, 16)
_BEFORE_KEYS, _AFTER_KEYS = range(16), range(48, SIZE)


class RecordingError(ValueError):
    """A file that is not a recording this version reads. The message says why."""


@dataclass(frozen=True)
class ProcessPart:
    """What is known of a process by now."""

    process: int
    info: dict[str, Any]


@dataclass(frozen=True)
class RecordsPart:
    """Records of one thread's ring, in order, or of several, one after the other, as `layout` describes them."""

    process: int
    thread: int  # code of the role of the ring's thread, or `SEVERAL`; each record carries its own too
    raw: bytes


@dataclass(frozen=True)
class TextsPart:
    """Texts, each with the 16-byte key that records carry."""

    pairs: list[tuple[bytes, str]]


@dataclass(frozen=True)
class EndPart:
    """The recording was ended on purpose."""

    info: dict[str, Any]


@dataclass(frozen=True)
class MarkPart:
    """How far the writer had read, and when."""

    info: dict[str, Any]
    """`monotonic_ns`, `realtime_ns`, `boot_id` of the writer's host; `rings`, as `tap.Tap` goes on from them"""


@dataclass(frozen=True)
class HeadPart:
    """What the file says of itself."""

    info: dict[str, Any]
    """As `heading.heading` makes it; a file of an earlier version has none."""


Part: TypeAlias = ProcessPart | RecordsPart | TextsPart | EndPart | MarkPart | HeadPart


class Target(Protocol):
    """What a recording is written to."""

    def write(self, data: bytes, /) -> object:
        """Take it all."""

    def flush(self) -> object:
        """Let a reader see it."""


class Writer:
    """Appends parts to a binary file, a pipe too; each is flushed, so that a reader sees whole ones."""

    def __init__(self, file: Target, level: int = LEVEL) -> None:
        self._file, self._level = file, level
        file.write(FILE_HEADER.pack(FILE_MAGIC, VERSION, sys.byteorder == "big"))

    def head(self, info: dict[str, Any]) -> None:
        """Say what this file is: first of all."""
        self._part(HEAD, json.dumps(info).encode())

    def process(self, process: int, info: dict[str, Any]) -> None:
        """Say who process number `process` is, or what has changed."""
        self._part(PROCESS, json.dumps(info | {"process": process}, default=str).encode())

    def records(self, process: int, thread: int, raw: bytes) -> None:
        """Keep whole records, as `reader.Segment.drain` gives them; nothing if there are none."""
        if raw:
            prefix = RECORDS_PREFIX.pack(process, thread, len(raw) // SIZE)
            self._part(RECORDS, prefix + zlib.compress(to_columns(raw), self._level))

    def texts(self, pairs: list[tuple[bytes, str]]) -> None:
        """Keep texts; nothing if there are none."""
        if pairs:
            encoded = ((key, text.encode()) for key, text in pairs)
            raw = b"".join(TEXT_PREFIX.pack(key, len(text)) + text for key, text in encoded)
            self._part(TEXTS, zlib.compress(raw, self._level))

    def end(self, info: dict[str, Any]) -> None:
        """Say that this is all. Leaves the file open."""
        self._part(END, json.dumps(info, default=str).encode())

    def mark(self, info: dict[str, Any]) -> None:
        """Say what time it is, and how far the rings have been read."""
        self._part(MARK, json.dumps(info).encode())

    def pass_on(self, frame: Frame) -> None:
        """A part of another recording, as it lies there."""
        self._part(frame.kind, frame.payload)

    def _part(self, kind: int, payload: bytes) -> None:
        header = PART_HEADER.pack(PART_MAGIC, kind, len(payload), zlib.crc32(payload))
        self._file.write(b"".join((header, HEADER_CRC.pack(zlib.crc32(header)), payload)))
        self._file.flush()


def to_columns(raw: bytes) -> bytes:
    """Records as columns: the same bytes in an order that compresses."""
    words, found = memoryview(raw).cast("Q"), [raw[at::SIZE] for at in _BEFORE_KEYS]
    for at in (2, 4):
        keys = memoryview(bytearray(len(raw) // SIZE * 16)).cast("Q")
        keys[::2], keys[1::2] = words[at :: SIZE // 8], words[at + 1 :: SIZE // 8]
        found.append(keys.tobytes())
    return b"".join((*found, *(raw[at::SIZE] for at in _AFTER_KEYS)))


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


@dataclass(frozen=True)
class Frame:
    """A part as it lies in the file."""

    at: int  # where its payload begins in the file
    kind: int
    payload: bytes


class Frames(Iterator[Frame]):
    """The sound parts of a recording, packed, in the order they were written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._buffer = file, bytearray()
        self._source = self._read()
        self.bad = 0
        """Stretches that were damaged, and skipped."""
        self.cut = False
        """Whether the file stopped inside a part."""
        self.read = 0
        """Bytes that were gone through."""
        _check_header(self._take(FILE_HEADER.size) or bytes(self._buffer))

    def __next__(self) -> Frame:
        return next(self._source)

    def _read(self) -> Iterator[Frame]:
        while self._fill(PART_PREFIX):
            length = _payload_length(self._buffer)
            if length is None:
                self._skip()
            elif not self._fill(PART_PREFIX + length):
                if self._buffer.find(PART_MAGIC, 1) < 0:
                    break
                self._skip()  # it lacks a stretch, and others lie where its end should be
            elif (frame := self._frame(length)) is not None:
                self._drop(PART_PREFIX + length)
                yield frame
            else:
                self._skip()
        self.cut = bool(self._buffer)

    def _frame(self, length: int) -> Frame | None:
        """The part at the buffer's start; None if its payload is not what it was."""
        _, kind, _, crc = PART_HEADER.unpack_from(self._buffer)
        payload = bytes(self._buffer[PART_PREFIX : PART_PREFIX + length])
        return Frame(self.read + PART_PREFIX, kind, payload) if crc == zlib.crc32(payload) else None

    def _skip(self) -> None:
        """Go to the next magic after this place, which may lie within what should have been here."""
        self.bad += 1
        while (at := self._buffer.find(PART_MAGIC, 1)) < 0:
            self._drop(len(self._buffer) - len(PART_MAGIC))  # its end may be the beginning of one
            if not self._fill(len(self._buffer) + 1):
                self._drop(len(self._buffer))
                return
        self._drop(at)

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
        self._drop(size)
        return taken

    def _drop(self, size: int) -> None:
        del self._buffer[:size]
        self.read += size


class Parts(Iterator[Part]):
    """The parts of a recording, in the order they were written; what was skipped is counted."""

    def __init__(self, file: IO[bytes]) -> None:
        self._frames = Frames(file)
        self._unreadable = 0

    @property
    def bad(self) -> int:
        """Stretches that were damaged or of an unknown kind, and skipped."""
        return self._frames.bad + self._unreadable

    @property
    def cut(self) -> bool:
        """Whether the file stopped inside a part."""
        return self._frames.cut

    def __next__(self) -> Part:
        for frame in self._frames:
            part = unpacked(frame.kind, frame.payload)
            if part is not None:
                return part
            self._unreadable += 1
        raise StopIteration


def parts(file: IO[bytes]) -> Parts:
    """Read a recording, from a file or a pipe. Raises RecordingError if it is none."""
    return Parts(file)


def times(payload: bytes) -> tuple[int, bytes]:
    """(process, the native i8 time of each record) of a records part, little more of which is unpacked.

    Raises ValueError, struct.error or zlib.error where the part is not what it says.
    """
    process, _, count = RECORDS_PREFIX.unpack_from(payload)
    columns = zlib.decompressobj().decompress(payload[RECORDS_PREFIX.size :], _TIME.stop * count)
    if len(columns) != _TIME.stop * count:
        raise ValueError("there are fewer records than their count says")
    found = bytearray(8 * count)
    for at in _TIME:
        found[at - _TIME.start :: 8] = columns[at * count : (at + 1) * count]
    return process, bytes(found)


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


def unpacked(kind: int, payload: bytes) -> Part | None:
    """What a sound part holds; None if it is of an unknown kind, or not what it says."""
    try:
        return _part(kind, payload)
    except (ValueError, KeyError, TypeError, struct.error, zlib.error):
        return None


def _part(kind: int, payload: bytes) -> Part | None:
    if kind == PROCESS:
        info = _object(payload)
        if not all(_is_said(info.get(name, of()), of) for name, of in SAID.items()):
            raise ValueError("what is said of the process is not of the types it should be")
        return ProcessPart(info["process"], info)
    if kind == RECORDS:
        process, thread, count = RECORDS_PREFIX.unpack_from(payload)
        return RecordsPart(process, thread, from_columns(zlib.decompress(payload[RECORDS_PREFIX.size :]), count))
    if kind == TEXTS:
        return TextsPart(list(_pairs(zlib.decompress(payload))))
    if kind == MARK:
        return MarkPart(_object(payload))
    if kind == HEAD:
        return HeadPart(_object(payload))
    return EndPart(_object(payload)) if kind == END else None


def _is_said(value: object, of: type) -> bool:
    return isinstance(value, of) and (not isinstance(value, int) or -LARGEST <= value < LARGEST)


def _object(payload: bytes) -> dict[str, Any]:
    try:
        found = json.loads(payload)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("an object is expected")
    return found


def _pairs(raw: bytes) -> Iterator[tuple[bytes, str]]:
    at = 0
    while at < len(raw):
        key, length = TEXT_PREFIX.unpack_from(raw, at)
        at += TEXT_PREFIX.size
        yield key, raw[at : at + length].decode("utf-8", "replace")
        at += length

"""Reading ring files, of the living and of the dead, while their writers go on.

A ring is copied, then its head is found again; what the writer may have been inside of meanwhile is left out, and each
record must carry the sequence that its place asks for. So none is taken torn, and what was overwritten is counted.
"""

from __future__ import annotations

import bisect
import fcntl
import json
import mmap
import os
import stat
import struct
import sys
import time
import weakref
from collections.abc import Container, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvscope.probe import layout, ring
from kvscope.probe.run_dir import why_unreadable
from kvscope.probe.texts import assembled
from kvscope.probe.vocabulary import THREADS

SIZE, WORDS, GUARD = layout.RECORD_BYTES, layout.RECORD_WORDS, layout.GUARD

# struct flock of 64-bit Linux: type, whence, start, length, pid.
_FLOCK = struct.Struct("@hhqqi4x")

# Maps of this very process's file, kept: each owns a descriptor, and closing one would drop the file's lock
# (see `ring.ProcessFile`).
_OWN: list[mmap.mmap] = []


def mapped(path: Path, fd: int, size: int, access: int) -> memoryview:
    """The first `size` bytes of an open file; unmapped with the last reference to them."""
    area = mmap.mmap(fd, size, access=access)
    if is_own(path):
        _OWN.append(area)
    return memoryview(area)


def is_own(path: Path) -> bool:
    """Whether it may be this process's own file. (Another container's process can have the same pid.)"""
    return path.name.startswith(f"{os.getpid()}-")


class RingError(ValueError):
    """A ring file or run directory that cannot be read. The message names it and the reason."""


class Ring:
    """Records in a mapped file: `capacity` of them, a power of two, from byte `at`."""

    def __init__(self, view: memoryview, at: int, capacity: int) -> None:
        self.capacity = capacity
        self._bytes = view[at : at + capacity * SIZE]
        self._words = self._bytes.cast("Q")

    def head(self) -> int:
        """One more than the last index published. Gaps of up to GUARD - 1 are looked over."""
        newest = max(self._words[: GUARD * WORDS : WORDS])
        if newest == 0:
            return 0
        base = (newest - 1) & -self.capacity
        return base + bisect.bisect_left(range(self.capacity), True, key=lambda slot: self._is_unwritten(base, slot))

    def _is_unwritten(self, base: int, slot: int) -> bool:
        """Whether neither this slot nor those near after it belong to the lap that begins at `base`."""
        last = min(slot + GUARD, self.capacity)
        return all(self._words[at * WORDS] != base + at + 1 for at in range(slot, last))

    def copy(self, start: int, stop: int) -> bytes:
        """Records [start, stop) as they lie now, unchecked: at most `capacity` of them."""
        low, high = (start & (self.capacity - 1)) * SIZE, (stop & (self.capacity - 1)) * SIZE
        if start >= stop:
            return b""
        return bytes(self._bytes[low:high]) if low < high else b"".join((self._bytes[low:], self._bytes[:high]))

    def drain(self, cursor: int, final: bool) -> tuple[bytes, int, int]:
        """(whole records from index `cursor` on, the next cursor, records lost between).

        `final`: the writer is dead, so what it left unfinished stays so, and is lost.
        """
        head = self.head()
        start = max(cursor, head - self.capacity)
        raw = self.copy(start, head)
        safe = max(start, self.head() - self.capacity + GUARD)
        raw, start, head = raw[(safe - start) * SIZE :], min(safe, max(head, cursor)), max(head, cursor)
        if sequences(raw) == list(range(start + 1, head + 1)):
            return raw, head, start - cursor
        return self._sifted(raw, start, head if final else head - GUARD, start - cursor)

    @staticmethod
    def _sifted(raw: bytes, start: int, settled: int, lost: int) -> tuple[bytes, int, int]:
        """The whole ones of records that have gaps; a gap at index `settled` or later may yet be filled."""
        whole = bytearray()
        found = sequences(raw)
        for place, sequence in enumerate(found):
            if sequence == start + place + 1:
                whole += raw[place * SIZE : (place + 1) * SIZE]
            elif start + place < settled:
                lost += 1
            else:
                return bytes(whole), start + place, lost
        return bytes(whole), start + len(found), lost


def sequences(raw: bytes) -> list[int]:
    """The sequence word of each record; right where it is the record's index + 1."""
    return memoryview(raw).cast("Q")[::WORDS].tolist() if raw else []


class Segment:
    """One thread's rings in a process's file."""

    def __init__(self, view: memoryview, at: int, size: int) -> None:
        words = view[at : at + layout.SEGMENT_HEADER_BYTES].cast("Q")
        magic, events, texts, events_at, texts_at, *_ = words[:8].tolist()
        for capacity, first in ((events, events_at), (texts, texts_at)):
            if capacity < GUARD or capacity & (capacity - 1) or first % 8 or first + capacity * SIZE > size:
                raise ValueError(f"the segment at byte {at} has impossible sizes")
        if magic != layout.SEGMENT_MAGIC:
            raise ValueError(f"the segment at byte {at} has a wrong magic")
        self.at = at
        """Where it lies in the file: in one file, its name."""
        self._words, self._name = words, view[at + layout.THREAD_NAME_AT :][: layout.THREAD_NAME_BYTES]
        self.events = Ring(view, at + events_at, events)
        self._texts = Ring(view, at + texts_at, texts)

    @property
    def thread(self) -> str:
        """The role of the thread that uses it, or used it last: one of `vocabulary.THREADS`."""
        code = self._words[layout.SEGMENT_WORD["thread"]]
        return THREADS[code] if code < len(THREADS) else THREADS[0]

    @property
    def name(self) -> str:
        """That thread's own name."""
        return _text(self._name)

    @property
    def tid(self) -> int:
        """Its number, as its own process sees it."""
        return self._words[layout.SEGMENT_WORD["tid"]]

    def drain(self, cursor: int, final: bool = False) -> tuple[bytes, int, int]:
        """(whole records, for numpy.frombuffer; the next cursor; records lost before or between them).

        Begin with cursor 0. `final`: the process is dead. Records of moment 0 are void: skip them.
        """
        return self.events.drain(cursor, final)

    def last_ns(self) -> int:
        """The time in the newest record, on the writer's monotonic clock; 0 if there is none."""
        head = self.events.head()
        return int.from_bytes(self.events.copy(head - 1, head)[8:16], sys.byteorder) if head else 0

    def copy(self) -> bytes:
        """The whole events ring as it lies, unchecked: record i is whole if its sequence is i + 1 for an i of its
        slot, and i >= head - capacity + GUARD with `events.head()` taken after the copy."""
        return self.events.copy(0, self.events.capacity)

    def drain_texts(self, cursor: int, final: bool = False) -> tuple[list[tuple[bytes, str]], int, int]:
        """([(16-byte key, text)], the next cursor, chunks lost). Drained after the events, it has all their texts.

        A text may be told more than once.
        """
        raw, following, lost = self._texts.drain(cursor, final)
        begun = following - len(raw) // SIZE
        pairs, waiting, orphans = assembled(raw)
        return pairs, following if final or not waiting else max(cursor, begun + waiting[0]), lost + orphans


@dataclass(frozen=True)
class Header:
    """What a ring file's first page said when it was read."""

    pid: int
    start_ticks: int
    boot_id: str
    monotonic_ns: int
    realtime_ns: int
    clock_error_ns: int
    stated_bytes: int
    file_bytes: int
    segments: int
    on: bool
    self_off: str
    """Why the probe switched itself off; empty if it did not."""
    note: str
    """Why the process records nothing, or less than it should; empty if there is no such reason."""
    errors: int
    refused: int
    """Events for which there was no room."""
    untold: int
    """Texts too long for a texts ring."""


class RingFile:
    """One process's ring file, mapped for reading. Raises RingError if it cannot be."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # Not waiting: what is named like a ring and is a pipe would never open.
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            if not is_own(path):
                weakref.finalize(self, os.close, self._fd)
            self._segments: dict[int, Segment] = {}
            self._map()
        except OSError as error:
            raise RingError(f"{path}: {error.strerror}") from None
        _check(path, self._view)

    def _map(self) -> None:
        found = os.fstat(self._fd)
        size = found.st_size
        if not stat.S_ISREG(found.st_mode):
            raise RingError(f"{self.path}: not a file")
        if size < layout.SEGMENTS_AT:
            raise RingError(f"{self.path}: {size} bytes is too short for a ring file")
        self._view = mapped(self.path, self._fd, size, mmap.ACCESS_READ)
        self._words = self._view[: layout.HEADER_BYTES].cast("Q")

    @property
    def header(self) -> Header:
        """The header as it is now."""
        word = dict(zip(layout.HEADER_WORDS, self._words[: len(layout.HEADER_WORDS)].tolist(), strict=True))
        refused = layout.REFUSED_AT // 8
        return Header(
            boot_id=self._field(layout.BOOT_ID_AT, layout.BOOT_ID_BYTES),
            on=bool(word["control"]),
            self_off=self._field(layout.SELF_OFF_AT, layout.SELF_OFF_BYTES) if word["self_off"] else "",
            note=self._field(layout.NOTE_AT, layout.NOTE_BYTES),
            file_bytes=os.fstat(self._fd).st_size,
            segments=sum(size > 0 for size in self._table()[1::2]),
            refused=sum(self._words[refused : refused + layout.SEGMENTS]),
            **{name: word[name] for name in _PLAIN_WORDS},
        )

    @property
    def alive(self) -> bool:
        """Whether the process still lives, by its lock: a pid says nothing across containers."""
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, *_ = _FLOCK.unpack(fcntl.fcntl(self._fd, fcntl.F_GETLK, asked))
        return kind != fcntl.F_UNLCK or self._is_own()

    def _is_own(self) -> bool:
        """One's own lock is no obstacle to oneself, so it is not reported."""
        header = self.header
        this = (os.getpid(), ring.start_ticks(), ring.boot_id())
        return is_own(self.path) and (header.pid, header.start_ticks, header.boot_id) == this

    @property
    def started(self) -> dict[str, Any]:
        """What the process said of itself; empty if nothing, or if it died saying it."""
        at = layout.STARTED_AT // 8
        words = self._view[: layout.SEGMENTS_AT].cast("Q")
        body = layout.STARTED_AT + layout.STARTED_PREFIX_BYTES
        for _ in range(1000):
            version, length = words[at], words[at + 1]
            raw = bytes(self._view[body : body + min(length, layout.SEGMENTS_AT - body)])
            if version % 2 == 0 and words[at] == version:
                return _json_object(raw)
        return {}

    @property
    def engine(self) -> str:
        """The engine's stable name, or nothing."""
        return str(self.started.get("engine", ""))

    def quiet_s(self) -> float:
        """Seconds since the last record that can be read, or since the file was made; infinite after a boot."""
        header = self.header
        if header.boot_id != ring.boot_id():
            return float("inf")
        try:
            last = max((segment.last_ns() for segment in self.segments()), default=0)
        except RingError:
            last = 0
        return (time.monotonic_ns() - max(last, header.monotonic_ns)) / 1e9

    def segments(self) -> list[Segment]:
        """The rings of every thread so far, in the order in which they were found: the same ones each time."""
        table = self._table()
        for index, (at, size) in enumerate(zip(table[::2], table[1::2], strict=True)):
            if size and index not in self._segments:
                self._segments[index] = self._segment(index, at, size)
        return list(self._segments.values())

    def _segment(self, index: int, at: int, size: int) -> Segment:
        if at + size > len(self._view):
            self._map()
        if at % 8 or size < layout.SEGMENT_HEADER_BYTES or at + size > len(self._view):
            raise RingError(f"{self.path}: cut short: segment {index} should end at byte {at + size}")
        try:
            return Segment(self._view, at, size)
        except ValueError as error:
            raise RingError(f"{self.path}: {error}") from None

    def _table(self) -> list[int]:
        """Offset and size of each segment, in turn."""
        first = layout.SEGMENT_TABLE_AT // 8
        return self._words[first : first + 2 * layout.SEGMENTS].tolist()

    def _field(self, at: int, size: int) -> str:
        return _text(self._view[at : at + size])


# fmt: off
_PLAIN_WORDS = (
    "pid", "start_ticks", "monotonic_ns", "realtime_ns", "clock_error_ns", "stated_bytes", "errors", "untold",
)
# fmt: on


def list_rings(run_dir: Path, faults: list[RingError] | None = None, known: Container[Path] = ()) -> list[RingFile]:
    """The ring files of a run directory but for the `known`, dead processes' too; none if it does not exist.

    A file that cannot be read is added to `faults`, or raised when no list is given.
    """
    return open_rings((path for path in ring_paths(run_dir) if path not in known), faults)


def open_rings(paths: Iterable[Path], faults: list[RingError] | None = None) -> list[RingFile]:
    """Those of the files that are still there. `faults`: as for `list_rings`."""
    rings = []
    for path in paths:
        try:
            rings.append(RingFile(path))
        except RingError as error:
            if not path.exists():
                continue  # removed since it was listed
            if faults is None:
                raise
            faults.append(error)
    return rings


def ring_paths(run_dir: Path) -> list[Path]:
    """Where the ring files of a run directory are, sorted; none if it does not exist. RingError: it cannot be read."""
    try:
        return sorted(path for path in run_dir.iterdir() if path.suffix == ".ring" and path.name[0] != ".")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RingError(why_unreadable(run_dir, error)) from None


def _check(path: Path, view: memoryview) -> None:
    magic, version = view[:16].cast("Q").tolist()
    if magic == int.from_bytes(layout.MAGIC.to_bytes(8, "little"), "big"):
        raise RingError(f"{path}: written on a machine of the other byte order; read it on one like it")
    if magic != layout.MAGIC:
        raise RingError(f"{path}: not a ring file (its first bytes are {bytes(view[:8])!r})")
    if version != layout.VERSION:
        raise RingError(
            f"{path}: layout version {version}, this reader knows {layout.VERSION}; use the kvscope it came from"
        )


def _text(field: memoryview) -> str:
    return bytes(field).split(b"\0", 1)[0].decode("utf-8", "replace")


def _json_object(raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw or b"{}")
        if b"\\ud" in raw.lower():  # may be half a character: a name in bytes of no encoding, which no page takes
            found = json.loads(json.dumps(found, ensure_ascii=False).encode(errors="replace"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}

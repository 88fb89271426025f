"""The writing side of a ring file: the process's file, and a segment for each of its threads.

Everything here happens once per process or once per thread; the path of an event is in `recorder`.
"""

from __future__ import annotations

import fcntl
import functools
import grp
import itertools
import mmap
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from kvscope.probe import layout
from kvscope.probe.ids import from_environment

WORD = layout.HEADER_WORD
GRANULE = max(mmap.ALLOCATIONGRANULARITY, 4096)
LEAST_EVENTS = 256
MIB = 1 << 20

# Roles that record a few events per engine, not per request, get rings this many times smaller.
QUIET_ROLES = ("handshake", "listener")
QUIET = 8


class NoRoom(OSError):
    """The file system or the process's own budget has no room for a ring; the message says which."""


def default_run_dir() -> Path:
    """Where this user's engines keep their rings, unless KVSCOPE_RUN_DIR says otherwise."""
    named = os.environ.get("KVSCOPE_RUN_DIR")
    return Path(named) if named else Path(f"/dev/shm/kvscope-{os.geteuid()}")


def budget_bytes() -> int:
    """The most one process's ring file may take."""
    return setting("KVSCOPE_SHM_BYTES", 8 * MIB)


def ring_events() -> int:
    """Records in a thread's ring: KVSCOPE_RING_EVENTS, rounded down to a power of two."""
    return 1 << max(setting("KVSCOPE_RING_EVENTS", 8192), LEAST_EVENTS).bit_length() - 1


def setting(name: str, otherwise: int) -> int:
    """A whole number from the environment. Raises ValueError naming it."""
    given = os.environ.get(name, "")
    if given and not given.isdecimal():
        raise ValueError(f"{name} is not a whole number: {given}")
    return int(given) if given else otherwise


def start_ticks() -> int:
    """When this process started, in clock ticks since boot: with the pid, a name nobody else had."""
    with open("/proc/self/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def boot_id() -> str:
    """The host's boot id; the same id means the same CLOCK_MONOTONIC."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def clock_pair() -> tuple[int, int, int]:
    """(monotonic ns, realtime ns, how far apart they may have been read): the tightest of five."""
    return min((_clock_pair_once() for _ in range(5)), key=lambda pair: pair[2])


def _clock_pair_once() -> tuple[int, int, int]:
    before, wall, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
    return (before + after) // 2, wall, (after - before + 1) // 2


class ProcessFile:
    """This process's ring file: mapped, locked for as long as the process lives.

    The lock is a POSIX one (fcntl F_SETLK), not an open-file-description one: a forked child that keeps the
    descriptor does not keep the parent looking alive. Its price: closing *any* descriptor of the file
    in this process drops it, and an mmap object owns one. So maps are kept in `_maps` for good.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        group = _group_id()
        open_directory(directory, group)
        self.ids = from_environment(directory)
        """How request ids are written; None: as they are."""
        self.path = directory / f"{os.getpid()}-{start_ticks()}-{os.urandom(3).hex()}.ring"
        self._fd, page = _create(self.path, group)
        self._maps = [page]
        self.view = memoryview(page)
        self.words = self.view.cast("Q")
        self.control = self.word("control")
        self._base = len(page)
        # Threads that begin together wait for nobody: what they share are lists, whose append and pop are atomic.
        self._claims: list[list[int]] = []
        self._left: dict[int, list[Segment]] = {}
        self._counters = list(range(1, layout.SEGMENTS - 1))

    def word(self, name: str) -> memoryview:
        """One word of the header, alone."""
        return self.words[WORD[name] : WORD[name] + 1]

    def write_missed(self, events: int) -> None:
        """Say how many events there were before the file: in a refusal counter that no thread has."""
        self.words[layout.REFUSED_AT // 8] = events

    def take_counter(self) -> int:
        """The header word where one thread counts what it could not record; all late comers share the last."""
        try:
            slot = self._counters.pop()
        except IndexError:
            slot = layout.SEGMENTS - 1
        return layout.REFUSED_AT // 8 + slot

    def leave_counter(self, word: int) -> None:
        """Its thread has ended: another may count on from there."""
        slot = word - layout.REFUSED_AT // 8
        if slot < layout.SEGMENTS - 1:
            self._counters.append(slot)

    def write_text(self, at: int, size: int, text: str) -> None:
        """Put `text` into a NUL-padded field of the header, cut to fit it."""
        _put_text(self.view, at, size, text)

    def write_started(self, payload: bytes) -> None:
        """Replace the `started` JSON. One thread at a time."""
        at = layout.STARTED_AT
        version = self.words[at // 8]
        self.words[at // 8] = version + 1
        body = at + layout.STARTED_PREFIX_BYTES
        self.view[body : body + len(payload)] = payload
        self.words[at // 8 + 1] = len(payload)
        self.words[at // 8] = version + 2

    def segment(self, role: str) -> Segment:
        """A segment for a thread of this role: one that an ended thread left, or a new one.

        Raises NoRoom when there is none to be had.
        """
        wanted = max(ring_events() // (QUIET if role in QUIET_ROLES else 1), LEAST_EVENTS)
        left = self._left.setdefault(wanted, [])
        try:
            return left.pop()
        except IndexError:
            return self._add_segment(wanted, left)

    def _add_segment(self, wanted: int, left: list[Segment]) -> Segment:
        events = self._affordable(wanted)
        size = segment_bytes(events)
        index, at = self._claim(size)
        if index >= layout.SEGMENTS:
            raise NoRoom(f"{layout.SEGMENTS} threads have rings already")
        os.posix_fallocate(self._fd, at, size)
        area = mmap.mmap(self._fd, size, offset=at)
        self._maps.append(area)
        segment = Segment(area, events, left)
        entry = layout.SEGMENT_TABLE_AT // 8 + 2 * index
        self.words[entry] = at
        self.words[entry + 1] = size
        return segment

    def _claim(self, size: int) -> tuple[int, int]:
        """(index, offset) of a new segment, the caller's alone: after all that were claimed before it."""
        claim = [size]
        self._claims.append(claim)
        index = next(place for place, other in enumerate(self._claims) if other is claim)
        return index, self._base + sum(claimed for (claimed,) in self._claims[:index])

    def _affordable(self, events: int) -> int:
        """The most records, up to `events`, that leave room for other threads and other users of the memory."""
        spare = spare_bytes(self._fd)
        stated = self.words[WORD["stated_bytes"]]
        budget = stated - self._base - sum(claimed for (claimed,) in self._claims)
        while events > LEAST_EVENTS and segment_bytes(events) > min(spare // 8, budget):
            events //= 2
        if segment_bytes(events) > budget:
            raise NoRoom(f"this process's rings have their {stated} bytes (KVSCOPE_SHM_BYTES)")
        if segment_bytes(events) > spare:
            raise NoRoom(f"{self.directory} is short of memory; {max(spare, 0)} bytes above what is left to others")
        return events

    def forget(self) -> None:
        """Remove the file of a process that ends well and never had an event."""
        refused = self.words[layout.REFUSED_AT // 8 :][: layout.SEGMENTS]
        if not self._claims and not any(refused):
            self.remove()

    def remove(self) -> None:
        """Take the file out of the directory: nothing is in it, or ever will be."""
        self.path.unlink(missing_ok=True)

    def abandon(self) -> None:
        """In a forked child: the file is the parent's. Its maps go with their last reference."""
        os.close(self._fd)


class Segment:
    """One thread's two rings. Kept by the process file when its thread ends, and used again."""

    def __init__(self, area: mmap.mmap, events: int, left: list[Segment]) -> None:
        texts = events // 4
        view = memoryview(area)
        texts_at = layout.SEGMENT_HEADER_BYTES + events * layout.RECORD_BYTES
        self._view, self._words, self._left = view, view.cast("Q"), left
        self.events = Ring(view, layout.SEGMENT_HEADER_BYTES, events)
        self.texts = Ring(view, texts_at, texts)
        header = (0, events, texts, layout.SEGMENT_HEADER_BYTES, texts_at, 0, 0, 0)
        for index, word in enumerate(header):
            self._words[index] = word
        self._words[0] = layout.SEGMENT_MAGIC

    def name(self, thread: threading.Thread, role: int) -> None:
        """Say whose segment this is."""
        self._words[layout.SEGMENT_WORD["thread"]] = role
        self._words[layout.SEGMENT_WORD["tid"]] = thread.native_id or 0
        _put_text(self._view, layout.THREAD_NAME_AT, layout.THREAD_NAME_BYTES, thread.name)

    def leave(self) -> None:
        """The thread has ended: the next one of its kind may go on where it stopped."""
        self._left.append(self)


class Ring:
    """A power of two of records in shared memory: where their bodies and their sequence words are."""

    def __init__(self, view: memoryview, at: int, capacity: int) -> None:
        records = view[at : at + capacity * layout.RECORD_BYTES]
        self.capacity = capacity
        self.bodies = records[8:]
        self.sequences = records.cast("Q")
        self.take: Callable[[], tuple[int, int, int]] = _places(capacity).__next__
        """(sequence, where the body goes in `bodies`, where the sequence goes in `sequences`) of the next record.

        One C call: a finalizer that records inside a record gets another place. It is also half the cost of
        the arithmetic.
        """


def _places(capacity: int) -> Iterator[tuple[int, int, int]]:
    bodies, words = _offsets(capacity)
    return zip(itertools.count(1), itertools.cycle(bodies), itertools.cycle(words), strict=False)


@functools.cache
def _offsets(capacity: int) -> tuple[list[int], list[int]]:
    """The same numbers for every ring of that size, so that a thread costs references only."""
    size, words = layout.RECORD_BYTES, layout.RECORD_WORDS
    return list(range(0, capacity * size, size)), list(range(0, capacity * words, words))


def segment_bytes(events: int) -> int:
    """Bytes of a segment with this many records, and a quarter as many text chunks."""
    size = layout.SEGMENT_HEADER_BYTES + (events + events // 4) * layout.RECORD_BYTES
    return -(-size // GRANULE) * GRANULE


def spare_bytes(fd: int) -> int:
    """What the file system has beyond KVSCOPE_RESERVE, which is left to others: 16 MiB, or a quarter of a small one."""
    found = os.fstatvfs(fd)
    kept = setting("KVSCOPE_RESERVE", min(16 * MIB, found.f_blocks * found.f_frsize // 4))
    return found.f_bavail * found.f_frsize - kept


def open_directory(directory: Path, group: int | None) -> None:
    """Make the run directory, or check that it is safe to write in. Raises OSError."""
    try:
        directory.mkdir(mode=0o700, parents=True)
        if group is not None:
            os.chown(directory, -1, group)
            directory.chmod(0o750)
    except FileExistsError:
        found = directory.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(f"{directory} is not a directory") from None
        if found.st_uid not in (os.geteuid(), 0):
            raise PermissionError(f"{directory} belongs to another user (uid {found.st_uid})") from None


def _create(path: Path, group: int | None) -> tuple[int, mmap.mmap]:
    hidden = path.with_name(f".{path.name}.new")
    fd = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if group is not None:
            os.fchown(fd, -1, group)
            os.fchmod(fd, 0o640)
        size = -(-layout.SEGMENTS_AT // GRANULE) * GRANULE
        os.posix_fallocate(fd, 0, size)
        page = mmap.mmap(fd, size)
        _fill_header(memoryview(page), size)
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(hidden, path)
    except BaseException:
        os.close(fd)
        hidden.unlink(missing_ok=True)
        raise
    return fd, page


def _fill_header(view: memoryview, size: int) -> None:
    words = view.cast("Q")
    monotonic, realtime, error = clock_pair()
    values = {
        "magic": layout.MAGIC,
        "version": layout.VERSION,
        "control": 1,
        "pid": os.getpid(),
        "start_ticks": start_ticks(),
        "monotonic_ns": monotonic,
        "realtime_ns": realtime,
        "clock_error_ns": error,
        "stated_bytes": max(budget_bytes(), size),
    }
    for name, value in values.items():
        words[WORD[name]] = value
    _put_text(view, layout.BOOT_ID_AT, layout.BOOT_ID_BYTES, boot_id())


def _put_text(view: memoryview, at: int, size: int, text: str) -> None:
    raw = text.encode("utf-8", "backslashreplace")[: size - 1]
    view[at : at + size] = raw.ljust(size, b"\0")


def _group_id() -> int | None:
    name = os.environ.get("KVSCOPE_GROUP")
    if not name:
        return None
    try:
        return int(name) if name.isdigit() else grp.getgrnam(name).gr_gid
    except KeyError:
        raise PermissionError(f"KVSCOPE_GROUP names no group of this host: {name}") from None

"""The processes to sample: those that record in a run directory, by the pids that this process sees."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from kvscope.model.errors import InputError
from kvscope.probe.reader import RingError, RingFile, is_own, list_rings
from kvscope.sources.proc import PROC

_FLOCK = struct.Struct("@hhqqi4x")
UNSEEN = 0
"""The pid of a process of another pid namespace that this one does not hold."""


@dataclass(frozen=True)
class Target:
    """A process that records."""

    pid: int
    """As this process numbers it; `UNSEEN` where it does not see it."""
    own_pid: int
    """As the process numbers itself."""
    engine: str
    ring: RingFile

    @property
    def who(self) -> str:
        """What to call it."""
        return f"{self.engine}, pid {self.pid or self.own_pid},"

    def roles(self) -> dict[int, tuple[str, str]]:
        """tid, as the process sees it -> (role, name) of its recording threads."""
        try:
            return {segment.tid: (segment.thread, segment.name) for segment in self.ring.segments()}
        except RingError:
            return {}


def recording_in(run_dir: Path, engines: Collection[str] = ()) -> list[Target]:
    """The living processes that record there, of these engines or of all. InputError: the directory cannot be read."""
    try:
        rings = [ring for ring in list_rings(run_dir, []) if ring.alive]
    except RingError as error:
        raise InputError(str(error)) from None
    found = [_target(ring) for ring in rings if ring.header.segments and not is_own(ring.path)]
    return [target for target in found if not engines or target.engine in engines]


def clock_ahead(pid: int, root: Path = PROC) -> int:
    """How far a process's CLOCK_MONOTONIC is ahead of this one's, ns: a time namespace may set it."""
    return _offset(root, str(pid)) - _offset(root, "self")


def _offset(root: Path, pid: str) -> int:
    try:
        lines = (root / pid / "timens_offsets").read_text().splitlines()
    except OSError:
        return 0  # a kernel without
    words = next((line.split() for line in lines if line.startswith("monotonic")), ["", "0", "0"])
    return int(words[1]) * 1_000_000_000 + int(words[2])


def _target(ring: RingFile) -> Target:
    own_pid = ring.header.pid
    return Target(_holder(ring.path), own_pid, ring.engine or f"pid {own_pid}", ring)


def _holder(path: Path) -> int:
    """Who holds the lock of a ring file. The kernel says it in the numbers of whoever asks."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return UNSEEN
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, *_, pid = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, asked))
        return int(pid) if kind != fcntl.F_UNLCK else UNSEEN
    finally:
        os.close(fd)

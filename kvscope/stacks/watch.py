"""What the kernel says of threads, several times between two stacks: whether they sleep, and on what.

A thread that waits for the GIL sleeps, like one that waits for a message: the two are told apart by the address that
it sleeps on, which /proc shows without stopping anybody.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kvscope.stacks.gil import Gil

PROC = Path("/proc")
FUTEX = {"x86_64": 202, "aarch64": 98}.get(os.uname().machine, -1)
READ_BYTES = 128

RUNS, SLEEPS, AWAITS_GIL, UNKNOWN = range(4)
"""What a thread does at an instant."""


@dataclass(frozen=True)
class Look:
    """One instant of one process."""

    t: int
    """ns, CLOCK_MONOTONIC: when the look began"""
    holder: int | None
    """The thread that holds the GIL, 0 if none does, None if it cannot be told."""
    threads: Mapping[int, int]
    """tid, as the process numbers it -> RUNS, SLEEPS, AWAITS_GIL or UNKNOWN"""


@dataclass
class Watch:
    """Looks at some threads of one process."""

    pid: int
    gil: Gil
    looks: list[Look] = field(default_factory=list)
    threads: int = 0
    """How many the process has, others too."""
    _files: dict[int, int] = field(default_factory=dict)
    """tid, as the process numbers it -> a descriptor of what it is at"""

    def find(self, runtime: int) -> None:
        """Find the GIL, once the address of _PyRuntime is known."""
        if runtime and not self.gil.at:
            self.gil.locate(runtime, own_tids(self.pid))

    def follow(self, tids: set[int]) -> None:
        """Look at these threads from now on: tids as the process numbers them."""
        self.threads = len(_listed(PROC / str(self.pid) / "task"))
        for gone in set(self._files) - tids:
            os.close(self._files.pop(gone))
        new = tids - set(self._files)
        if not new:
            return
        for own, tid in own_tids(self.pid).items():
            if own in new:
                self._open(own, tid)

    def look(self) -> None:
        """Take one look."""
        t, before = time.monotonic_ns(), self.gil.holder()
        threads = {tid: self._state(file) for tid, file in self._files.items()}
        # Whoever waited in between waited for the one or the other.
        self.looks.append(Look(t, before or self.gil.holder(), threads))

    def at(self, t: int, within_ns: float) -> Look:
        """The look that is nearest to a time; one that tells nothing where none is near enough."""
        place = bisect_left(self.looks, t, key=_when)
        near = [look for look in self.looks[max(place - 1, 0) : place + 1] if abs(look.t - t) <= within_ns]
        return min(near, key=lambda look: abs(look.t - t), default=Look(t, None, {}))

    def forget(self, before: int) -> None:
        """Drop the looks that are older."""
        del self.looks[: max(bisect_left(self.looks, before, key=_when) - 1, 0)]

    def close(self) -> None:
        """Let go of the process."""
        self.follow(set())
        self.gil.close()

    def _open(self, own: int, tid: int) -> None:
        try:
            self._files[own] = os.open(PROC / str(self.pid) / "task" / str(tid) / "syscall", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return  # it ended, or may not be looked at

    def _state(self, file: int) -> int:
        try:
            words = os.pread(file, READ_BYTES, 0).split()
        except OSError:
            return UNKNOWN
        if not words or words[0] == b"running":
            return RUNS if words else UNKNOWN
        if int(words[0]) == FUTEX and self.gil.is_waited_on(int(words[1], 16)):
            return AWAITS_GIL
        return SLEEPS


def own_tids(pid: int) -> dict[int, int]:
    """Each thread of a process: its number as the process sees it -> as this one does."""
    found = {}
    for name in _listed(PROC / str(pid) / "task"):
        own = _own(PROC / str(pid) / "task" / name / "status")
        if own:
            found[own] = int(name)
    return found


def _listed(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _own(status: Path) -> int:
    try:
        text = status.read_text()
    except OSError:
        return 0
    return next((int(line.split()[-1]) for line in text.splitlines() if line.startswith("NSpid:")), 0)


def _when(look: Look) -> int:
    return look.t

"""What can be seen of a vLLM process from outside: its entry in /proc, its ring file, its installation."""

from __future__ import annotations

from dataclasses import dataclass

from kvscope.probe.reader import Header
from kvscope.sources.packages import Packages
from kvscope.sources.proc import HostProcess


@dataclass(frozen=True)
class Finding:
    """Something that should be otherwise, and what to do about it."""

    what: str
    do: str


@dataclass(frozen=True)
class RingThread:
    """One thread's ring."""

    role: str
    name: str
    capacity: int
    published: int

    @property
    def held(self) -> int:
        return min(self.published, self.capacity)


@dataclass(frozen=True)
class RingSeen:
    """A process's ring file; `fault` says why it cannot be read, and then the rest is empty."""

    path: str
    pid: int
    """As the process sees itself."""
    start_ticks: int
    fault: str = ""
    alive: bool = False
    header: Header | None = None
    started: dict[str, object] | None = None
    threads: tuple[RingThread, ...] = ()


@dataclass(frozen=True)
class Place:
    """Where a process would put its rings."""

    path: str
    problem: str = ""
    """Why nothing can be written there, if so."""
    free_bytes: int | None = None


@dataclass(frozen=True)
class Sighting:
    """One process: what /proc, its ring and its installation say. Any of the three may be missing."""

    process: HostProcess | None
    ring: RingSeen | None
    place: Place
    packages: Packages | None = None
    refusal: str = ""
    """Why the patches do not fit the vLLM installed there; empty if they do, or if it could not be read."""
    feeds_others: bool = False
    """An API server whose engine is a process of its own."""
    connector: bool | None = None
    """Whether its command line, or that of the process above it, names a KV connector; None: not known."""
    serves: bool | None = None
    """Whether it, or the API server above it, takes requests yet; None: not known."""


@dataclass(frozen=True)
class Clock:
    """This process's clock, to compare with."""

    source: str | None
    time_namespace: str | None
    boot_id: str
    monotonic_ns: int
    realtime_ns: int

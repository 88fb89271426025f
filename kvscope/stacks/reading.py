"""stacks.jsonl -> columns. `writing` says what is in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kvscope.model.counting import count
from kvscope.model.errors import InputError
from kvscope.probe import regular
from kvscope.stacks.writing import VERSION

SAMPLE = np.dtype(
    [("t", "i8"), ("thread", "u4"), ("stack", "u4"), ("gil", "i1"), ("idle", "i1"), ("waits", "?")],
)
"""`thread` and `stack` index `Stacks.threads` and `Stacks.frames`; `gil` and `idle`: 1, 0, or -1 where not told."""
UNTOLD = -1
LARGEST = 2**62


@dataclass(frozen=True)
class Thread:
    """One thread of one process."""

    pid: int
    tid: int
    name: str
    engine: str
    role: str
    """One of `vocabulary.THREADS`."""


@dataclass(frozen=True)
class Clock:
    """How well the times of a process's samples are known, from one time to another (ns)."""

    pid: int
    begin: int
    end: int
    error_ns: int


@dataclass(frozen=True)
class Stacks:
    """Samples by time, and what they index."""

    period_ns: int
    """Between two samples of a thread, on average."""
    boot_id: str
    """Whose CLOCK_MONOTONIC the times are of."""
    tool: str
    samples: np.ndarray
    """(n,) SAMPLE, by t"""
    threads: tuple[Thread, ...]
    frames: tuple[tuple[str, ...], ...]
    """The stacks: `function (file:line)`, outermost first."""
    clocks: tuple[Clock, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences: what is missing, and why."""

    def roles(self) -> np.ndarray:
        """(n,) the role of each sample's thread."""
        roles = np.array([thread.role for thread in self.threads] or [""])
        return np.asarray(roles[self.samples["thread"]])

    def select(self, which: np.ndarray) -> Stacks:
        """Some of the samples: a bool mask or indices."""
        return Stacks(
            self.period_ns,
            self.boot_id,
            self.tool,
            self.samples[which],
            self.threads,
            self.frames,
            self.clocks,
            self.notes,
        )


@dataclass
class _Gathered:
    samples: list[tuple[int, int, int, int, int, bool]] = field(default_factory=list)
    threads: dict[int, Thread] = field(default_factory=dict)
    frames: dict[int, tuple[str, ...]] = field(default_factory=dict)
    clocks: list[Clock] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unreadable: int = 0

    def take(self, said: dict[str, Any]) -> None:
        """One line. ValueError, TypeError, KeyError: it is not what it begins like."""
        if "t" in said:
            sample = (_ns(said["t"]), int(said["thread"]), int(said["stack"]))
            if sample[1] not in self.threads or sample[2] not in self.frames:
                raise ValueError("nothing was said of its thread or its stack")
            self.samples.append((*sample, _told(said["gil"]), _told(said["idle"]), bool(said.get("waits"))))
        elif "frames" in said:
            self.frames[_next(said["stack"], self.frames)] = tuple(map(str, said["frames"]))
        elif "thread" in said:
            names = (str(said[name]) for name in ("name", "engine", "role"))
            self.threads[_next(said["thread"], self.threads)] = Thread(_ns(said["pid"]), _ns(said["tid"]), *names)
        elif "clock" in said:
            self.clocks.append(Clock(*(_ns(said[name]) for name in ("clock", "from", "to", "error_ns"))))
        elif "note" in said:
            self.notes.append(str(said["note"]))


def read_stacks(path: Path) -> Stacks:
    """InputError: it is not there, or no such file. What is damaged in it is counted in a note."""
    try:
        with regular.opened(path) as file:
            lines = iter(file)
            header = _header(path, next(lines, b""))
            gathered = _gathered(lines)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from None
    if gathered.unreadable:
        gathered.notes.append(
            f"{path}: {count(gathered.unreadable, 'line')} cannot be read, and what they told is missing"
        )
    samples = np.array(gathered.samples, SAMPLE)
    return Stacks(
        *header,
        samples[np.argsort(samples["t"], kind="stable")],
        tuple(gathered.threads[number] for number in sorted(gathered.threads)),
        tuple(gathered.frames[number] for number in sorted(gathered.frames)),
        tuple(gathered.clocks),
        tuple(gathered.notes),
    )


def remaining(path: Path) -> str:
    """What can be read of a file whose writing failed, in words."""
    try:
        samples = len(read_stacks(path).samples)
    except InputError:
        samples = 0
    return f"{count(samples, 'sample')} in {path} can be read" if samples else f"no sample in {path} can be read"


def _gathered(lines: Iterator[bytes]) -> _Gathered:
    gathered = _Gathered()
    for line in lines:
        try:
            gathered.take(json.loads(line))
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            gathered.unreadable += 1
    return gathered


def _header(path: Path, line: bytes) -> tuple[int, str, str]:
    try:
        said = json.loads(line)
        version, header = said["stacks"], (_ns(said["period_ns"]), str(said["boot_id"]), str(said["tool"]))
        if not header[0]:
            raise ValueError("no time between two samples")
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        raise InputError(f"{path} holds no sampled stacks; `kvscope profile -o DIR` makes such a file") from None
    if version != VERSION:
        raise InputError(
            f"{path}: stacks of version {version}, this reader knows {VERSION}; use the kvscope that wrote it"
        )
    return header


def _next(number: object, known: dict[int, Any]) -> int:
    """Numbers are given in turn; one that was given before replaces what was said then."""
    if not isinstance(number, int) or not 0 <= number <= len(known):
        raise ValueError("a number out of turn")
    return number


def _ns(number: Any) -> int:  # noqa: ANN401 - as JSON has it
    """A time, or a number that a column holds."""
    if not 0 <= (whole := int(number)) < LARGEST:
        raise ValueError("a number out of bounds")
    return whole


def _told(flag: object) -> int:
    return UNTOLD if flag is None else int(bool(flag))

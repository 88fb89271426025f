"""stacks.jsonl, as it is written: one JSON object a line, each sort of line told by its first key.

    {"stacks": 1, "period_ns": n, "boot_id": s, "tool": s}               the first line
    {"clock": pid, "from": t, "to": t, "error_ns": n}                     samples of the process are within so much
    {"thread": n, "pid": n, "tid": n, "name": s, "engine": s, "role": s}  before its first sample
    {"stack": n, "frames": [s, ..]}                                       outermost first
    {"t": ns, "thread": n, "stack": n, "gil": bool, "idle": bool}         a sample; `"waits": true`: for the GIL
    {"note": s}                                                           what is missing, and why

Times are CLOCK_MONOTONIC. `gil` and `idle` are null where they cannot be told.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, Any

from kvscope.stacks.chrometrace import Stack

VERSION = 1


class StacksFile:
    """The file. OSError: it cannot be written; FileExistsError: it is there."""

    def __init__(self, path: Path, header: dict[str, Any]) -> None:
        self._file: IO[str] = open(path, "x", encoding="utf-8")  # noqa: SIM115 - closed by `close`
        self._threads: dict[tuple[int, int, str], tuple[int, str]] = {}
        """(pid, tid, name) -> (number, role)"""
        self._stacks: dict[Stack, int] = {}
        self.samples = 0
        self._line({"stacks": VERSION} | header)

    def thread(self, pid: int, tid: int, name: str, engine: str, role: str) -> int:
        """Its number. Said once, and again when its role has become known."""
        number, told = self._threads.get((pid, tid, name), (len(self._threads), None))
        if told != role:
            self._threads[pid, tid, name] = number, role
            self._line({"thread": number, "pid": pid, "tid": tid, "name": name, "engine": engine, "role": role})
        return number

    def stack(self, frames: Stack) -> int:
        """Its number. Said once."""
        if frames not in self._stacks:
            self._stacks[frames] = len(self._stacks)
            self._line({"stack": self._stacks[frames], "frames": frames})
        return self._stacks[frames]

    def sample(self, t: int, thread: int, stack: int, gil: bool | None, idle: bool | None, waits: bool) -> None:
        """One thread at one instant."""
        self.samples += 1
        line = {"t": t, "thread": thread, "stack": stack, "gil": gil, "idle": idle}
        self._line(line | {"waits": True} if waits else line)

    def clock(self, pid: int, begin: int, end: int, error_ns: int) -> None:
        """How well the times of a process's samples are known."""
        self._line({"clock": pid, "from": begin, "to": end, "error_ns": error_ns})

    def note(self, sentence: str) -> None:
        """What a reader has to be told."""
        self._line({"note": sentence})

    def flush(self) -> None:
        """Let a reader see it."""
        self._file.flush()

    def close(self) -> None:
        """No more comes."""
        self._file.close()

    def _line(self, said: dict[str, Any]) -> None:
        self._file.write(json.dumps(said, separators=(",", ":")) + "\n")

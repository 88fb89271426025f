"""Sampled stacks that go with a recording: what engines and Python were doing, and nothing of anybody's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kvscope.model.errors import InputError
from kvscope.probe.vocabulary import THREADS
from kvscope.sharing.clocks import Clock
from kvscope.sharing.known import known
from kvscope.sharing.names import Names

FILE = "stacks.jsonl"
UNTOLD = "(not told)"
"""A function of somebody's own."""

Line = Mapping[str, Any]


class Stacks:
    """Makes of each line one that may be given away."""

    def __init__(self, names: Names, clocks: Mapping[str, Clock]) -> None:
        """`clocks`: of each boot id in the recording"""
        self._names, self._clocks = names, clocks
        self._clock = Clock()
        self._numbers: dict[tuple[str, int], int] = {}
        self.dropped = 0
        """Lines that are not given away: notes, what cannot be read, samples from before the recording."""

    def of(self, said: Line) -> dict[str, Any] | None:
        """A line; None: nothing of it. ValueError, TypeError, KeyError: it is not what it begins like."""
        for key, made in self._kinds().items():
            if key in said:
                return made(said)
        return None

    def _kinds(self) -> dict[str, Callable[[Line], dict[str, Any] | None]]:
        return {
            "stacks": self._header,
            "t": self._sample,
            "frames": self._frames,
            "thread": self._thread,
            "clock": self._error,
        }

    def _header(self, said: Line) -> dict[str, Any]:
        host = str(said["boot_id"])
        if host not in self._clocks:
            raise InputError(f"{FILE} is of another host than the recording; share them without --stacks")
        self._clock = self._clocks[host]
        told = {"period_ns": int(said["period_ns"]), "boot_id": self._names.of("host", host)}
        return {"stacks": int(said["stacks"]), **told, "tool": known("tool", str(said["tool"])) or ""}

    def _sample(self, said: Line) -> dict[str, Any] | None:
        t = int(said["t"]) + self._clock.shift
        flags = {name: None if said[name] is None else bool(said[name]) for name in ("gil", "idle")}
        line = {"t": t, "thread": int(said["thread"]), "stack": int(said["stack"]), **flags}
        return None if t < 0 else line | ({"waits": True} if said.get("waits") else {})

    def _frames(self, said: Line) -> dict[str, Any]:
        return {"stack": int(said["stack"]), "frames": [known("frame", str(each)) or UNTOLD for each in said["frames"]]}

    def _thread(self, said: Line) -> dict[str, Any]:
        # Python names a thread after its function, in brackets.
        name, role = str(said["name"]).partition(" (")[0], str(said["role"])
        return {
            "thread": int(said["thread"]),
            "pid": self._number("pid", int(said["pid"])),
            "tid": self._number("tid", int(said["tid"])),
            "name": known("thread name", name) or "",
            "engine": self._names.of("engine", str(said["engine"])),
            "role": role if role in THREADS else THREADS[0],
        }

    def _error(self, said: Line) -> dict[str, Any]:
        begin, end = (max(int(said[name]) + self._clock.shift, 0) for name in ("from", "to"))
        pid = self._number("pid", int(said["clock"]))
        return {"clock": pid, "from": begin, "to": end, "error_ns": int(said["error_ns"])}

    def _number(self, kind: str, number: int) -> int:
        return self._numbers.setdefault((kind, number), sum(known == kind for known, _ in self._numbers) + 1)


def write_stacks(source: Path, path: Path, stacks: Stacks) -> int:
    """Write what may be given away of `source`; returns how many samples that is. InputError: `source` is none."""
    samples = 0
    with open(source, "rb") as lines, open(path, "x", encoding="utf-8") as file:
        for number, said in enumerate(_lines(lines, stacks)):
            if number == 0 and "stacks" not in said:
                raise InputError(f"{source} holds no sampled stacks; share the recording without --stacks")
            samples += "t" in said
            file.write(json.dumps(said, separators=(",", ":")) + "\n")
    return samples


def _lines(lines: Iterator[bytes] | Any, stacks: Stacks) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - a binary file
    for line in lines:
        try:
            said = json.loads(line)
            made = stacks.of(said) if isinstance(said, dict) else None
        except InputError:
            raise
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            made = None
        if made is None:
            stacks.dropped += 1
        else:
            yield made

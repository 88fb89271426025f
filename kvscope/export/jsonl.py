"""The sink of `kvscope export --jsonl`: every moment as a JSON line, with what is needed to read all of it back."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from kvscope.export.making import Making, check_free
from kvscope.export.passage import Part
from kvscope.model.counting import count
from kvscope.model.events import Process
from kvscope.sources.lines import Lines, last_line, process_lines, version_line

STDOUT = "-"


class Place(Protocol):
    """Where lines go."""

    name: str

    def write(self, data: bytes, /) -> object:
        """Take it all."""

    def finish(self) -> None:
        """It was all."""

    def abandon(self) -> None:
        """It was not."""


class ToFile:
    """A file that is there once it is whole."""

    def __init__(self, path: Path, force: bool) -> None:
        """InputError: it is there (and not `force`), or cannot be written."""
        check_free(path, force)
        self._making, self.name = Making(path), f"written to {path}"
        self.write = self._making.write

    def finish(self) -> None:
        """As `Place` has it."""
        self._making.settle()
        self._making.place()

    def abandon(self) -> None:
        """As `Place` has it."""
        self._making.abandon()


class ToStdout:
    """Standard output: whoever reads it learns by the exit code whether it was all."""

    name = "written to standard output"

    def __init__(self) -> None:
        self.write = sys.stdout.buffer.write

    def finish(self) -> None:
        """As `Place` has it."""
        sys.stdout.buffer.flush()

    def abandon(self) -> None:
        """As `Place` has it."""


class JsonlSink:
    """Lines, as the parts come."""

    def __init__(self, place: Place) -> None:
        self._place, self._lines = place, Lines()
        self._told: tuple[Process, ...] = ()
        self._notes: tuple[str, ...] = ()
        self._events = self._impossible = 0
        self._put([version_line()])

    def take(self, part: Part) -> None:
        """As `Sink` has it."""
        events = part.events
        if events.processes != self._told:
            self._told = events.processes
            self._put(process_lines(events.processes))
        self._put(self._lines.of(events))
        self._events += len(events)
        self._impossible += events.impossible
        self._notes = part.notes

    def _put(self, lines: Iterable[str]) -> None:
        text = "\n".join(lines)
        if text:
            self._place.write(f"{text}\n".encode())

    def finish(self) -> str:
        """As `Sink` has it."""
        self._put([last_line(self._notes, self._impossible)])
        self._place.finish()
        said = f"{count(self._events, 'event')} {self._place.name}"
        if self._lines.left_out:
            said += f"; {count(self._lines.left_out, 'value')} left out that no count can be"
        return said

    def abandon(self) -> None:
        """As `Sink` has it."""
        self._place.abandon()

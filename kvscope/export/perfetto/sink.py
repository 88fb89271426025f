"""A trace for Perfetto in a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kvscope.export.jsonl import ToFile
from kvscope.export.passage import Part
from kvscope.export.perfetto.trace import Trace
from kvscope.model.amounts import in_bytes
from kvscope.model.counting import count
from kvscope.stacks.reading import Stacks

COMFORTABLE = 3_000_000
"""Packets that the page opens without running short of memory."""


class PerfettoSink:
    """Takes a recording bit by bit."""

    def __init__(self, path: Path, force: bool = False, stacks: Sequence[Stacks] = ()) -> None:
        """stacks: what threads did meanwhile. InputError: the file is there (and not `force`), or cannot be made."""
        self._stacks = stacks
        self._file = ToFile(path, force)
        self._size = 0
        self._trace = Trace(self._write)

    def take(self, part: Part) -> None:
        """Write what can be written of it. InputError: there is no room."""
        self._trace.take(part)

    def finish(self) -> str:
        """Complete the trace and give it its name."""
        trace = self._trace
        trace.complete(self._stacks)
        self._file.finish()
        held = f"{count(trace.requests, 'request')} and {count(trace.events, 'event')}"
        held += f", {count(trace.samples, 'sampled stack')}" if trace.samples else ""
        said = f"{held} {self._file.name}, {in_bytes(self._size)}"
        if trace.packets > COMFORTABLE:
            return f"{said}; {count(trace.packets, 'packet')} are a lot for the page: cut it with --from and --to"
        return f"{said}; open it at https://ui.perfetto.dev"

    def abandon(self) -> None:
        """Leave no file behind."""
        self._file.abandon()

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._size += len(data)

"""Blocks of a memory, one after the other, as one recording."""

from __future__ import annotations

from typing import Any

from kvscope.incidents.memory import Block, Info
from kvscope.probe.heading import heading, new_recording
from kvscope.probe.recording import Target, Writer


class Splice:
    """Writes blocks into a file. What is said of a process is said as of the first block that tells of it: what its
    rings had taken by then is earlier, what is missing since then is lost."""

    def __init__(self, file: Target) -> None:
        self._file, self._writer = file, Writer(file)
        self._writer.head(heading(new_recording()))
        self._earlier: dict[int, int] = {}
        self._held: dict[int, int] = {}
        self._told: dict[int, dict[str, Any]] = {}
        self.events = self.lost = 0

    @property
    def processes(self) -> list[Info]:
        """What was said of each."""
        return list(self._told.values())

    def add(self, block: Block) -> None:
        """Append it."""
        for number, info in block.infos.items():
            self._tell(number, info, block.counts.get(number, 0))
        self._file.write(block.frames)
        self._file.flush()
        self.events += block.events

    def end(self) -> None:
        """Say that this is all."""
        self._writer.end({"processes": len(self._told), "events": self.events, "lost": self.lost})

    def _tell(self, number: int, info: Info, count: int) -> None:
        before, missing = int(info.get("earlier", 0)), int(info.get("lost", 0))
        earlier = self._earlier.setdefault(number, before)
        lost = before + missing - earlier - self._held.get(number, 0)
        self._held[number] = self._held.get(number, 0) + count
        said = {**info, "earlier": earlier, "lost": lost}
        if self._told.get(number) != said:
            self.lost += lost - int(self._told.get(number, {}).get("lost", 0))
            self._told[number] = said
            self._writer.process(number, said)

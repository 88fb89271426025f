"""Blocks of a memory, one after the other, as one recording: of what they hold, the events of a stretch of time."""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from kvscope.incidents.memory import Block, Info
from kvscope.probe.heading import heading, new_recording
from kvscope.probe.hiding import hiding
from kvscope.probe.ids import Ids
from kvscope.probe.recording import (
    FILE_HEADER,
    FILE_MAGIC,
    VERSION,
    Part,
    RecordsPart,
    Target,
    TextsPart,
    Writer,
    parts,
)
from kvscope.sources.records import Rows, chosen, records

EVER = (-(2**63), 2**63 - 1)
_BEGINNING = FILE_HEADER.pack(FILE_MAGIC, VERSION, sys.byteorder == "big")


class Splice:
    """Writes blocks into a file. What is said of a process is said as of the first event that may be in it: what its
    rings had taken by then is earlier, what is missing since then is lost."""

    def __init__(self, file: Target, stretch: tuple[int, int] = EVER, ids: Ids | None = None) -> None:
        """`stretch`: first and last time of events that are to be in it, ns. `ids`: how request ids are written; None:
        as they are."""
        self._file, self._stretch, self._ids = file, stretch, ids
        self._writer = hiding(Writer(file), ids)
        self._writer.head(heading(new_recording()))
        self._earlier: dict[int, int] = {}
        self._held: dict[int, int] = {}
        self._told: dict[int, dict[str, Any]] = {}
        self.events = self.lost = 0
        self.span: tuple[int, int] | None = None
        """Times of the first and the last event in it; None while there is none."""

    @property
    def processes(self) -> list[Info]:
        """What was said of each."""
        return list(self._told.values())

    def add(self, block: Block) -> None:
        """Append what is of its time."""
        if self._ids is None and self._stretch[0] <= block.first and block.last <= self._stretch[1]:
            self._tell(block, {})
            self._file.write(block.frames)
            self._file.flush()
            self._count(block.events, block.first, block.last)
        else:
            self._pack_anew(block)

    def end(self) -> None:
        """Say that this is all."""
        self._writer.end({"processes": len(self._told), "events": self.events, "lost": self.lost})

    def _pack_anew(self, block: Block) -> None:
        self._tell(block, self._early(block))
        for part in _parts(block):  # one at a time: the first block may be larger than all others
            if isinstance(part, TextsPart):
                self._writer.texts(part.pairs)
            elif isinstance(part, RecordsPart):
                self._write(part.process, part.thread, records(part.raw))

    def _early(self, block: Block) -> Mapping[int, int]:
        """process -> its records that are of before the stretch"""
        found: Counter[int] = Counter()
        for part in _parts(block) if block.first < self._stretch[0] else ():
            if isinstance(part, RecordsPart):
                found[part.process] += int((records(part.raw)["t"] < self._stretch[0]).sum())
        return found

    def _write(self, process: int, thread: int, rows: Rows) -> None:
        kept = chosen(rows, (rows["t"] >= self._stretch[0]) & (rows["t"] <= self._stretch[1]))
        if len(kept):
            self._writer.records(process, thread, kept.tobytes())
            self._count(len(kept), int(np.min(kept["t"])), int(np.max(kept["t"])))

    def _count(self, events: int, first: int, last: int) -> None:
        if events:
            self.events += events
            self.span = (min(first, self.span[0]), max(last, self.span[1])) if self.span else (first, last)

    def _tell(self, block: Block, before: Mapping[int, int]) -> None:
        """Say who recorded. `before`: as `_early` gives it"""
        for number, info in block.infos.items():
            self._tell_one(number, info, block.counts.get(number, 0), before.get(number, 0))

    def _tell_one(self, number: int, info: Info, count: int, cut: int) -> None:
        before, missing = int(info.get("earlier", 0)), int(info.get("lost", 0))
        earlier = self._earlier.setdefault(number, before)
        lost = before + missing - earlier - self._held.get(number, 0)
        self._held[number] = self._held.get(number, 0) + count - cut
        self._earlier[number] = earlier + cut
        # An incident stands alone: what lies before it was part of nothing that is named.
        said = {**{name: info[name] for name in info if name != "before"}, "earlier": earlier + cut, "lost": lost}
        if self._told.get(number) != said:
            self.lost += lost - int(self._told.get(number, {}).get("lost", 0))
            self._told[number] = said
            self._writer.process(number, said)


def _parts(block: Block) -> Iterator[Part]:
    return parts(io.BytesIO(_BEGINNING + block.frames))

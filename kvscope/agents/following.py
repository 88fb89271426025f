"""A folder of parts that grows, read as it grows: to it an aggregator's views and metrics are what a tap is to rings.

Only what a mark follows is given out: it was acknowledged, and is never cut off again. Standard library only.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvscope.probe.recording import (
    END,
    FILE_HEADER,
    HEAD,
    HEADER_CRC,
    MARK,
    PART_HEADER,
    PART_MAGIC,
    PART_PREFIX,
    Frame,
    MarkPart,
    unpacked,
)
from kvscope.sources.rotation import number_of, parts_of

CHUNK = 4 << 20
"""Bytes that one look takes at most, more where a single round is longer."""


@dataclass(frozen=True)
class Place:
    """How far a folder has been read."""

    part: int
    """number of the part; 0: nothing yet"""
    at: int
    """in it"""


def place_of(told: object) -> Place | None:
    """As a mark has it; None: that is none."""
    match told:
        case [int(part), int(at)] if part >= 0 and at >= 0:
            return Place(part, at)
    return None


class Follower:
    """Reads on from `since`, or from the begin of the part before the newest."""

    def __init__(self, folder: Path, since: Place | None = None) -> None:
        self._folder = folder
        self.place = since or self._recent()
        self.exchanges: list[list[Any]] = []
        """What the marks said of clocks that went by with the last look."""
        self.missed = 0
        """Parts that were removed before they were read to their end."""

    def look(self) -> list[Frame]:
        """What is new, in whole rounds: process, texts and records parts."""
        found: list[Frame] = []
        self.exchanges = []
        named = {number_of(path): path for path in self._listed()}  # before reading: what has a successor is whole
        numbers = [number for number in sorted(named) if number >= self.place.part]
        if numbers and self.place.part and numbers[0] > self.place.part:
            self.missed += 1
        for number in numbers:
            if number > self.place.part:
                self.place = Place(number, FILE_HEADER.size)
            before = self.place
            if self._read(named[number], found) >= CHUNK and self.place != before:
                break
        return found

    def _read(self, path: Path, found: list[Frame]) -> int:
        """Add what one part has to give; returns how much was read. A part that is gone gives nothing."""
        at, read = max(self.place.at, FILE_HEADER.size), 0
        try:
            with path.open("rb") as file:
                file.seek(at)
                buffer = file.read(CHUNK)
                read = len(buffer)
                while len(buffer) >= CHUNK and not _has_mark(buffer) and (more := file.read(CHUNK)):
                    buffer, read = buffer + more, read + len(more)
        except OSError:
            return 0
        waiting: list[Frame] = []
        for frame in frames_in(buffer, at):
            if frame.kind == MARK:
                found += waiting
                waiting.clear()
                self.place = Place(self.place.part, frame.at + len(frame.payload))
                self._heed(frame)
            elif frame.kind not in (HEAD, END):
                waiting.append(frame)
        return read

    def _heed(self, mark: Frame) -> None:
        part = unpacked(mark.kind, mark.payload)
        if isinstance(part, MarkPart) and isinstance(told := part.info.get("exchange"), list):
            self.exchanges.append(told)

    def _recent(self) -> Place:
        named = self._listed()
        return Place(number_of(named[-2 if len(named) > 1 else 0]), FILE_HEADER.size) if named else Place(0, 0)

    def _listed(self) -> list[Path]:
        try:
            return parts_of(self._folder)
        except OSError:
            return []


def frames_in(buffer: bytes, at: int) -> Iterator[Frame]:
    """The whole parts at the begin of what lies in a recording from `at` on."""
    start = 0
    while start + PART_PREFIX <= len(buffer):
        magic, kind, length, crc = PART_HEADER.unpack_from(buffer, start)
        (own,) = HEADER_CRC.unpack_from(buffer, start + PART_HEADER.size)
        begin, end = start + PART_PREFIX, start + PART_PREFIX + length
        if magic != PART_MAGIC or own != zlib.crc32(buffer[start : start + PART_HEADER.size]) or end > len(buffer):
            return
        payload = buffer[begin:end]
        if crc != zlib.crc32(payload):
            return
        yield Frame(at + begin, kind, payload)
        start = end


def _has_mark(buffer: bytes) -> bool:
    return any(frame.kind == MARK for frame in frames_in(buffer, 0))

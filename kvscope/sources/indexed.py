"""Recordings by time, none of them held: where each part lies in its file, and what stretch of time it spans.

A recording is in the order in which it was written: a part spans the moment that the recorder held it, the first
parts all that the rings held before. Parts carry no times of their own, so each is gone through once; only its
times are unpacked, a seventh of it. What is kept takes 50 bytes a part and 16 a text.
"""

from __future__ import annotations

import os
import struct
import zlib
from array import array
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from typing import BinaryIO

import numpy as np

from kvscope.model.errors import InputError
from kvscope.model.events import Events, Process
from kvscope.probe.recording import (
    RECORDS,
    TEXTS,
    EndPart,
    Frame,
    Frames,
    HeadPart,
    ProcessPart,
    RecordingError,
    times,
    unpacked,
)
from kvscope.sources.absent import absent
from kvscope.sources.bytime import Spans, reaches_of, text_keys
from kvscope.sources.emptiness import no_event
from kvscope.sources.gathering import without_twins
from kvscope.sources.lifetimes import ALWAYS, NEVER, Lifetimes, Place
from kvscope.sources.recording import Holding, faults, refused, rounded
from kvscope.sources.records import Rows, chosen, records, text_keys_of, texts_of, to_rows, unpacked_records
from kvscope.sources.twice import counted_twice, told_twice

PART = np.dtype(
    [
        *(("first", "i8"), ("last", "i8"), ("count", "i8"), ("process", "i8")),
        *(("file", "i8"), ("at", "i8"), ("size", "i8")),
    ]
)
TOLD = np.dtype([("key", "u8"), ("part", "i8")])
PLACE = np.dtype([("file", "i8"), ("at", "i8"), ("size", "i8")])
TEXT_PARTS = 256
"""Parts of texts that are kept unpacked: what is played names the same engines again and again."""


class Index:
    """Goes through recordings, one after the other."""

    def __init__(self) -> None:
        self.files: list[BinaryIO] = []
        self.notes: list[str] = []
        self.impossible = 0
        """Records whose time no event can have."""
        self.lives = Lifetimes()
        self._parts, self._told, self._places = array("q"), array("Q"), array("q")

    def add(self, file: BinaryIO, name: str, told: Callable[[int], None]) -> None:
        """Take a recording; it stays open. `told` hears how many bytes were gone through. InputError: it is none."""
        try:
            frames = Frames(file)
        except RecordingError as error:
            raise refused(name, error) from None
        scan = _Scan(self, len(self.files), name)
        for frame in frames:
            scan.take(frame)
            told(frames.read)
        self.files.append(file)
        self.notes += faults(name, frames.bad + scan.bad, frames.cut, scan.ended, scan.held)

    def close(self) -> None:
        """Let go of the files."""
        for file in self.files:
            file.close()

    def part(self, first: int, last: int, count: int, process: int, whose: Place, place: tuple[int, ...]) -> None:
        """There are records at a place of a file."""
        self.lives.seen(process, whose, (first, last), count)
        self._parts.extend((first, last, count, process, *place))

    def texts(self, keys: list[int], place: Iterable[int]) -> None:
        """There are texts at a place of a file."""
        part = len(self._places) // len(PLACE.names or ())
        self._places.extend(place)
        told = np.empty(len(keys), TOLD)
        told["key"], told["part"] = keys, part
        self._told.frombytes(told.tobytes())

    @property
    def parts(self) -> np.ndarray:
        """shape (n,), dtype PART, by first time"""
        table = np.array(self._parts, np.int64).view(PART)
        return table[np.argsort(table["first"], kind="stable")]

    @property
    def told(self) -> np.ndarray:
        """shape (n,), dtype TOLD, by key, each once: where it was told first"""
        table = np.array(self._told, np.uint64).view(TOLD)
        return table[np.unique(table["key"], return_index=True)[1]]

    @property
    def places(self) -> np.ndarray:
        """shape (n,), dtype PLACE: the parts that `told` counts"""
        return np.array(self._places, np.int64).view(PLACE)


class _Scan:
    """One file's parts, as they come."""

    def __init__(self, index: Index, file: int, name: str) -> None:
        self._index, self._file, self._name = index, file, name
        self._numbers: dict[int, int] = {}
        """process in the file -> in the index"""
        self._latest = ALWAYS
        self.bad, self.ended, self.held = 0, False, Holding()

    def take(self, frame: Frame) -> None:
        """Note what it holds."""
        try:
            known = self._noted(frame)
        except (ValueError, KeyError, TypeError, struct.error, zlib.error):
            known = False
        self.bad += not known

    def _noted(self, frame: Frame) -> bool:
        place = self._file, frame.at, len(frame.payload)
        if frame.kind == RECORDS:
            return self._records(frame.payload, place)
        if frame.kind == TEXTS:
            self._index.texts(text_keys_of(frame.payload), place)
            return True
        part = unpacked(frame.kind, frame.payload)
        if isinstance(part, HeadPart):
            self._head(part)
        elif isinstance(part, EndPart):
            self.ended = True
            self.held.end(part.info)
        elif isinstance(part, ProcessPart):
            self._numbers[part.process] = self._index.lives.tell(part.info, (self._file, part.process), self._latest)
        return part is not None

    def _head(self, part: HeadPart) -> None:
        """What it says of processes holds from its beginning on, unless a later one says otherwise."""
        recording, number = (part.info.get(name, f"file {self._file}") for name in ("recording", "part"))
        self._index.lives.file(self._file, str(recording), str(number))
        self._index.notes += rounded(self._name, part.info)
        begun = part.info.get("monotonic_ns")
        if isinstance(begun, int) and ALWAYS < begun < NEVER:
            self._latest = max(self._latest, begun)

    def _records(self, payload: bytes, place: tuple[int, ...]) -> bool:
        process, raw = times(payload)
        t = np.frombuffer(raw, np.int64)
        self.held.read += len(t)
        t = t[t != 0]  # void ones have none
        possible = (t > ALWAYS) & (t < NEVER)
        self._index.impossible += len(t) - int(np.count_nonzero(possible))
        t = t[possible]
        if not len(t):
            return True
        first, last = int(t.min()), int(t.max())
        self._index.part(first, last, len(t), self._numbers[process], (self._file, process), place)
        self._latest = max(self._latest, last)
        return True


class Indexed:
    """Some recordings together. A process that several of them hold is one, and so is a record."""

    def __init__(self, index: Index) -> None:
        """InputError: there is no event in them."""
        parts = index.parts
        if not len(parts):
            raise InputError(no_event([str(file.name) for file in index.files], index.notes))
        self.begin, self.end = int(parts["first"].min()), int(parts["last"].max())
        self._faults = tuple(index.notes)
        self.impossible = index.impossible
        self._files, self._lives, self._spans = index.files, index.lives, Spans(parts)
        self._told, self._places = index.told, index.places
        self._further: dict[int, Rows] = {}
        """Parts that reach beyond what was read last: the next step forward needs them."""
        self._texts = lru_cache(TEXT_PARTS)(self._texts_at)

    def pieces(self, after: int, until: int) -> np.ndarray:
        """As `ByTime` has it."""
        return self._spans.pieces(after, until)

    def between(self, after: int, until: int) -> Events:
        """As `ByTime` has it."""
        rows = self._rows(after, until)
        processes, where = self._lives.until(until)
        rows["process"] = where[rows["process"]]
        return Events(rows, processes, self._texts_of(rows))

    @property
    def reaches(self) -> np.ndarray:
        """As `ByTime` has it."""
        table = self._spans.table
        return reaches_of(table["process"], table["first"], table["last"], len(self._lives))

    def whole(self, after: int, until: int, which: np.ndarray | None = None) -> Events:
        """As `ByTime` has it."""
        rows = self._rows(after, until, which)
        return Events(rows, self.processes, self._texts_of(rows))

    @property
    def processes(self) -> tuple[Process, ...]:
        """As `ByTime` has it."""
        return self._lives.until(NEVER)[0]

    @property
    def notes(self) -> tuple[str, ...]:
        """As `ByTime` has it."""
        return self._notes(self.processes)

    def settled(self, found: np.ndarray) -> tuple[tuple[Process, ...], tuple[str, ...]]:
        """As `ByTime` has it."""
        processes = self._lives.merged(found.tolist())
        return processes, (*self._notes(processes), *told_twice(max(0, self._lives.held - int(found.sum()))))

    def _notes(self, processes: tuple[Process, ...]) -> tuple[str, ...]:
        return (*self._faults, *absent(processes), *counted_twice(self._lives.under_other_ids))

    def _rows(self, after: int, until: int, which: np.ndarray | None = None) -> Rows:
        found: dict[int, list[Rows]] = {}
        further: dict[int, Rows] = {}
        places, whose = self._spans.overlapping(after, until), self._spans.table["process"]
        if which is not None:
            places = places[which[whose[places]]]
            further = {part: rows for part, rows in self._further.items() if not which[whose[part]]}
        for part in places.tolist():
            rows, span = self._records_of(part), self._spans.table[part]
            if span["last"] > until:
                further[part] = rows
            if not (span["first"] > after and span["last"] <= until and span["count"] == len(rows)):
                rows = chosen(rows, (rows["t"] > after) & (rows["t"] <= until))
            found.setdefault(int(span["process"]), []).append(rows)
        self._further = further
        return to_rows([(process, rows) for process, each in found.items() for rows in self._once(process, each)])

    def next_after(self, t: int) -> int | None:
        """As `ByTime` has it."""
        first = self._spans.table["first"]
        later = int(np.searchsorted(first, t, "right"))
        found = [int(first[later])] if later < len(first) else []
        for part in self._spans.overlapping(t, t).tolist():  # those that began before and reach beyond
            times = self._records_of(part)["t"]
            found += [int(times[times > t].min())] if (times > t).any() else []
        return min(found, default=None)

    def _once(self, process: int, parts: list[Rows]) -> list[Rows]:
        return [without_twins(np.concatenate(parts))] if self._lives.in_several(process) else parts

    def _records_of(self, part: int) -> Rows:
        if part in self._further:
            return self._further[part]
        place = self._spans.table[part]
        with suppress(ValueError, struct.error, zlib.error):
            return unpacked_records(self._read(place))
        changed = f"{self._files[int(place['file'])].name} has changed since it was opened; parts of it are missing"
        self._faults = (*self._faults, changed) if changed not in self._faults else self._faults
        return records(b"")

    def _texts_of(self, rows: np.ndarray) -> dict[int, str]:
        keys = text_keys(rows)
        at = np.searchsorted(self._told["key"], keys)
        at[at == len(self._told)] = 0
        known = self._told["key"][at] == keys if len(self._told) else np.zeros(len(keys), bool)
        parts = self._told["part"][at[known]].tolist() if len(self._told) else []
        texts = {part: self._texts(part) for part in set(parts)}
        return {key: texts[part].get(key, "") for key, part in zip(keys[known].tolist(), parts, strict=True)}

    def _texts_at(self, part: int) -> dict[int, str]:
        with suppress(ValueError, struct.error, zlib.error):
            return texts_of(self._read(self._places[part]))
        return {}

    def _read(self, place: np.void) -> bytes:
        return os.pread(self._files[int(place["file"])].fileno(), int(place["size"]), int(place["at"]))

    def close(self) -> None:
        """Let go of the files."""
        for file in self._files:
            file.close()

"""Recordings that are gone through twice, part by part."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

from kvscope.model.errors import InputError
from kvscope.probe.layout import RECORD_BYTES
from kvscope.probe.recording import EndPart, Frames, Part, ProcessPart, RecordingError, RecordsPart, unpacked
from kvscope.sources.folders import PARTS, RINGS, Member, members
from kvscope.sources.opening import PARQUET_MAGIC, RING_MAGIC, is_recording
from kvscope.sources.parquet.manifest import is_export
from kvscope.sources.recording import Holding, faults, refused
from kvscope.sources.routers.reading import begins_as_log, router_log

INSTEAD = "only recordings can be shared, so name the recording that goes with it"
RINGS_INSTEAD = "only recordings can be shared: `kvscope dump -o FILE` makes one of rings"


class Source:
    """One file. What is added to it after it was first looked at is not seen."""

    def __init__(self, path: str) -> None:
        """InputError: it is no recording that can be read twice."""
        self.path = path
        with _opened(path) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise InputError(f"{path} is read twice, so it has to be a file; save it to one first")
            _check_kind(file, path)
            self.size = found.st_size
            self._frames(file)
        self.orphans = 0
        """Parts of processes of which nothing was said."""
        self.bad, self.cut, self.ended, self.held = 0, False, False, Holding()

    @property
    def notes(self) -> list[str]:
        """Sentences on what is damaged or missing; known once it was gone through."""
        return list(faults(self.path, self.bad + self.orphans, self.cut, self.ended, self.held))

    def parts(self, told: Callable[[int], None]) -> Iterator[Part]:
        """What is whole, in order; records only of processes that were told of. `told` hears the bytes gone through."""
        with _opened(self.path) as file:
            frames = self._frames(file)
            yield from self._whole(frames, told)
            self.bad, self.cut = self.bad + frames.bad, frames.cut

    def _frames(self, file: BinaryIO) -> Frames:
        try:
            return Frames(cast(BinaryIO, _UpTo(file, self.size)))
        except RecordingError as error:
            raise refused(self.path, error) from None

    def _whole(self, frames: Frames, told: Callable[[int], None]) -> Iterator[Part]:
        self.bad, self.orphans, self.held, known = 0, 0, Holding(), set[int]()
        for frame in frames:
            part = unpacked(frame.kind, frame.payload)
            told(frames.read)
            if isinstance(part, ProcessPart):
                known.add(part.process)
            elif isinstance(part, EndPart):
                self.ended = True
                self.held.end(part.info)
            elif isinstance(part, RecordsPart):
                self.held.read += len(part.raw) // RECORD_BYTES
            if part is None:
                self.bad += 1
            elif isinstance(part, RecordsPart) and part.process not in known:
                self.orphans += 1
            else:
                yield part


def _check_kind(file: io.BufferedReader, path: str) -> None:
    """InputError: what lies there is no recording."""
    start = file.peek(len(RING_MAGIC))[: len(RING_MAGIC)]
    if start.startswith(PARQUET_MAGIC):
        raise InputError(f"{path} is a table of a Parquet export; {INSTEAD}")
    if start == RING_MAGIC:
        raise InputError(f"{path} is one process's ring file; {RINGS_INSTEAD}")
    if begins_as_log(file) or router_log(file, path) is not None:
        raise InputError(f"{path} is what a router wrote, with its request ids and addresses; {INSTEAD}")
    if not is_recording(file, path):
        raise InputError(f"{path} is JSON lines; {INSTEAD}")


class _UpTo:
    """The first bytes of a file."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._left = file, size

    def read(self, size: int) -> bytes:
        """Up to so many."""
        found = self._file.read(min(size, self._left))
        self._left -= len(found)
        return found


def sources(paths: Sequence[Path | str]) -> tuple[list[Source], list[str]]:
    """(the recordings that the names stand for, sentences on parts of folders that are none). InputError: a name is of
    no recording."""
    found, notes = [], []
    for member in members(paths):
        try:
            found.append(_source(member))
        except InputError as error:
            if not member.part:
                raise
            notes.append(f"left out: {error}")
    return found, notes


def _source(member: Member) -> Source:
    if member.path == "-":
        raise InputError("a recording that is shared is read twice, so it has to be a file; save it to one first")
    if Path(member.path).is_dir():
        if is_export(Path(member.path)):
            raise InputError(f"{member.path} is a Parquet export; {INSTEAD}")
        if any(Path(member.path).glob(RINGS)):
            raise InputError(f"{member.path} holds rings; {RINGS_INSTEAD}")
        raise InputError(f"{member.path} holds no recording ({PARTS}); `kvscope record -o FILE` makes one")
    if member.why_empty:
        raise InputError(member.why_empty)
    return Source(member.path)


def _opened(path: str) -> io.BufferedReader:
    try:
        return open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
    except FileNotFoundError:
        raise InputError(f"there is no {path}; name a recording, or a folder with one") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from None

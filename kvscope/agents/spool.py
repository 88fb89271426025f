"""Batches on disk until the far end has them: a file for each, whole or not there. Standard library only.

Files are `batch-NUMBER.kvs`, in the order in which they were made; each can be read as a recording. The newest stays
until there is a newer one, also when it was taken: it says how far the rings have been read. Where there is no room,
the oldest go, and how many records that were is kept beside them, by process. Nothing here waits for a disk: what is
written survives the end of its process, and not a power cut.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvscope.agents.batch import Batch, key_of
from kvscope.model.errors import InputError
from kvscope.probe.recording import SIZE as RECORD_BYTES
from kvscope.probe.recording import HeadPart, MarkPart, Part, ProcessPart, RecordingError, RecordsPart, parts
from kvscope.probe.tap import Progress
from kvscope.sources.locking import locked

SPOOL_BYTES = 256_000_000
LEAST_BYTES = 1_000_000
_NAME = re.compile(r"batch-(\d{12})\.kvs")
_DROPPED = "dropped.json"
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class Kept:
    """A batch that lies there."""

    path: Path
    size: int


class Spool:
    """A folder of batches, this process's alone. One thread adds, another takes away."""

    def __init__(self, path: Path, most_bytes: int = SPOOL_BYTES) -> None:
        """InputError: it cannot be had, or another agent has it."""
        self._path, self._most = path, most_bytes
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock_fd = locked(path, f"another agent keeps its batches in {path} now; name another folder")
            self._kept = deque(_found(path))
            self.dropped: dict[str, int] = _dropped(path)
            """process -> records in batches that went for want of room"""
        except OSError as error:
            raise InputError(f"cannot keep batches in {path}: {(error.strerror or str(error)).lower()}") from None
        self.bytes = sum(each.size for each in self._kept)
        """That they take."""
        self.dropped_batches = 0
        """That went for want of room, since this was opened."""
        self._taken = 0
        """Of the batches, the first so many are with the far end: none, or the only one."""
        self._next = 1 + max((_number(each.path) for each in self._kept), default=0)
        self._changed = threading.Condition()
        self.rings: Progress = {}
        """How far the rings had been read by the newest batch."""
        self._forget_unmarked()

    def _forget_unmarked(self) -> None:
        """Batches of a round that was not finished were not offered to anybody: their records are read anew."""
        while self._kept:
            found = _progress(self._kept[-1].path)
            if found is not None:
                self.rings = found
                return
            self._remove(self._kept.pop())

    @property
    def empty(self) -> bool:
        """Whether there is nothing in it, not even a batch that was taken."""
        return not self._kept

    @property
    def waiting(self) -> int:
        """Batches that the far end does not have."""
        return len(self._kept) - self._taken

    def add(self, batches: Iterable[Batch]) -> None:
        """Keep a round of them. OSError: there is no room, though all others made some: the round is lost."""
        made: list[Kept] = []
        try:
            for batch in batches:
                made.append(self._added(batch))
        except OSError:
            for each in made:
                each.path.unlink(missing_ok=True)
            raise
        with self._changed:
            self._kept += made
            self.bytes += sum(each.size for each in made)
            if self._taken and made:
                self._remove(self._kept.popleft())
                self._taken = 0
            while self.bytes > self._most and len(self._kept) > 1:
                self._drop()
            self._changed.notify_all()

    def _added(self, batch: Batch) -> Kept:
        path = self._path / f"batch-{self._next:012}.kvs"
        self._next += 1
        while True:
            try:
                _write(path, batch.data)
                return Kept(path, len(batch.data))
            except OSError as error:
                with self._changed:
                    if error.errno not in _FULL or not self.waiting:
                        raise
                    self._drop()

    def _drop(self) -> None:
        """Let go of the oldest."""
        if self._taken:
            self._taken = 0
        else:
            self.dropped_batches += 1
            for key, records in _records(self._kept[0].path).items():
                self.dropped[key] = self.dropped.get(key, 0) + records
        self._remove(self._kept.popleft())
        with suppress(OSError):  # it is known as long as this runs
            _write(self._path / _DROPPED, json.dumps(self.dropped).encode())

    def _remove(self, each: Kept) -> None:
        each.path.unlink(missing_ok=True)
        self.bytes -= each.size

    def oldest(self, seconds: float) -> tuple[Path, bytes] | None:
        """The first that the far end does not have: waited for so long; None: there is none."""
        with self._changed:
            self._changed.wait_for(lambda: self.waiting, seconds)
            while self.waiting:
                path = self._kept[self._taken].path
                try:
                    return path, path.read_bytes()
                except OSError:  # somebody removed it, and what was in it is told as missing by what follows
                    self._remove(self._kept[self._taken])
                    del self._kept[self._taken]
        return None

    def took(self, path: Path) -> None:
        """The far end has the oldest, if that is still this one."""
        with self._changed:
            if not self.waiting or self._kept[self._taken].path != path:
                return
            if len(self._kept) > 1:
                self._remove(self._kept.popleft())
            else:
                self._taken = 1

    def forget(self) -> None:
        """Have nothing: all of it is read anew."""
        with self._changed:
            while self._kept:
                self._remove(self._kept.pop())
            self._taken, self.rings = 0, {}

    def close(self) -> None:
        """Let others have it."""
        os.close(self._lock_fd)


def _write(path: Path, data: bytes) -> None:
    """Whole, or not at all."""
    new = path.with_suffix(".new")
    try:
        new.write_bytes(data)
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def _found(path: Path) -> list[Kept]:
    for left in path.glob("*.new"):
        left.unlink(missing_ok=True)
    named = [each for each in path.iterdir() if _NAME.fullmatch(each.name) and each.is_file()]
    return [Kept(each, each.stat().st_size) for each in sorted(named, key=_number)]


def _number(path: Path) -> int:
    named = _NAME.fullmatch(path.name)
    assert named is not None
    return int(named[1])


def _dropped(path: Path) -> dict[str, int]:
    try:
        found: Any = json.loads((path / _DROPPED).read_bytes())
        return {str(key): int(records) for key, records in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _parts(path: Path) -> list[Part]:
    try:
        with path.open("rb") as file:
            return list(parts(file))
    except (OSError, RecordingError):
        return []


def _progress(path: Path) -> Progress | None:
    """As of its mark; None: it has none."""
    marks = [part.info for part in _parts(path) if isinstance(part, MarkPart)]
    rings: Mapping[str, Any] | None = marks[-1].get("rings") if marks else None
    return rings


def _records(path: Path) -> dict[str, int]:
    """process -> records in a batch"""
    keys, held = dict[int, str](), dict[str, int]()
    for part in _parts(path):
        if isinstance(part, ProcessPart):
            keys[part.process] = key_of(part.info)
        elif isinstance(part, RecordsPart) and part.process in keys:
            key = keys[part.process]
            held[key] = held.get(key, 0) + len(part.raw) // RECORD_BYTES
    return held


def head_of(data: bytes) -> dict[str, Any]:
    """What a batch says of itself; empty: nothing that can be read."""
    try:
        return next((part.info for part in parts(io.BytesIO(data)) if isinstance(part, HeadPart)), {})
    except RecordingError:
        return {}

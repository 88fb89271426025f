"""A folder of parts that grows at one end and, where there is a limit, is let go of at the other.

Parts are `part-NUMBER-TIME.kvs`, TIME being when one was begun, in UTC. The number alone orders them, since a wall
clock may be set back. A recording that goes on in a folder counts on from there. Nothing else in it is touched.
Standard library only.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from kvscope.model.errors import InputError
from kvscope.probe.heading import heading, new_recording
from kvscope.probe.recording import Writer
from kvscope.sources.locking import locked
from kvscope.sources.output import AGAIN, Output

NAME = re.compile(r"part-(\d{6,})-\d{8}T\d{6}Z\.kvs")
PART_BYTES, PART_S = 64_000_000, 600.0
FEWEST = 4
"""Parts that a quota has room for, at least: what is let go of is one of them."""


@dataclass(frozen=True)
class Limits:
    """When a part ends, and how long it is kept."""

    part_bytes: int = PART_BYTES
    part_s: float = PART_S
    quota: int | None = None
    """Bytes that all parts may take together; None: as many as there is room for."""
    keep_s: float | None = None
    """How long a part is kept after its last event was written; None: for good."""

    @property
    def fitting(self) -> Limits:
        """With parts that are small enough for the quota."""
        if self.quota is None:
            return self
        return Limits(min(self.part_bytes, self.quota // FEWEST), self.part_s, self.quota, self.keep_s)


@dataclass(frozen=True)
class _Kept:
    """A part that is not written to any more."""

    path: Path
    size: int
    ended: float
    """time of day, s"""


class Folder:
    """Where parts go: this process's alone while it is open. A context manager."""

    def __init__(self, path: Path, limits: Limits, wall: Callable[[], float] = time.time) -> None:
        """InputError: another recording goes into it. OSError: it cannot be written."""
        self._path, self._limits, self._wall = path, limits.fitting, wall
        path.mkdir(parents=True, exist_ok=True)
        self._lock = self._locked()
        self._recording, self._number = new_recording(), 0
        """Parts of this recording so far."""
        named = parts_of(path)
        self._kept = [_Kept(each, *found) for each in named if (found := _file(each))]
        self._last = max(map(number_of, named), default=0)
        self._faults = dict.fromkeys(_strange(named))
        self._stuck: list[_Kept] = []
        self.removed = 0
        """Parts that were removed, to keep to the limits or by others."""
        self._file: Output | None = None
        self._begun = 0.0
        self._written = 0

    def _locked(self) -> int:
        return locked(self._path, f"another recording goes into {self._path} now; name another folder")

    @property
    def size(self) -> int:
        """Bytes that this recording has written, to whichever parts."""
        return self._written + (self._file.size if self._file else 0)

    @property
    def kept(self) -> int:
        """Bytes of all parts that are there."""
        return self._taken()

    @property
    def parts(self) -> int:
        """Parts that this recording has begun."""
        return self._number

    @property
    def unremoved(self) -> int:
        """Parts that should have been removed and could not be."""
        return len(self._stuck)

    @property
    def faults(self) -> tuple[str, ...]:
        """Sentences on what is in the way, each once."""
        return tuple(self._faults)

    def begin(self) -> Writer:
        """End the part that is being written, if one is, and begin the next."""
        gone = self._gone()
        self._finish()
        if gone:
            self._renew(gone)
        self._number, self._begun = self._number + 1, self._wall()
        self._file = Output(self._free(), force=False)
        writer = Writer(self)
        writer.head(heading(self._recording, self._number))
        if gone:
            self._faults[f"{gone}; it goes on in {self._file.path}"] = None
        self.trim()
        return writer

    @property
    def broken(self) -> bool:
        """Whether the part that is being written is not there any more, and another has to be begun."""
        return bool(self._gone())

    def _gone(self) -> str:
        """What was removed of where this recording goes, the folder or the part; nothing if all is there."""
        if self._file is None:
            return ""
        if not self._there():
            return f"{self._path} was removed while it was recorded, and what was in it is lost"
        self._file.flush()  # what is in a buffer was not cut off
        try:
            self._file.check()
        except InputError as lost:
            return str(lost).removesuffix(AGAIN)
        return ""

    def _renew(self, gone: str) -> None:
        """Make the folder again where it is not there. InputError: that does not work, or another recording has it."""
        if self._there():
            return
        try:
            self._path.mkdir(exist_ok=True)  # not what is above it: a disk that is gone is not written beside
            lock = self._locked()
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise InputError(f"{gone}; it cannot be made again ({why}): record anew") from None
        os.close(self._lock)
        self._lock = lock
        self.removed += len(self._kept)
        self._kept, self._stuck = [], []

    def _there(self) -> bool:
        """Whether the folder that was opened still lies at its path."""
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._lock))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # who may not look does not know
            return True

    def full(self) -> bool:
        """Whether the part is large or old enough."""
        assert self._file is not None
        passed = self._wall() - self._begun
        return self._file.size >= self._limits.part_bytes or not 0 <= passed < self._limits.part_s

    def trim(self) -> None:
        """Let go of parts that are too old."""
        while self._limits.keep_s is not None and self._kept and self._age() > self._limits.keep_s:
            self._let_go()

    def write(self, data: bytes, /) -> None:
        """Take it all; what has been kept longest makes room for it."""
        assert self._file is not None
        quota = self._limits.quota
        while quota is not None and self._kept and self._taken() + len(data) > quota:
            self._let_go()
        self._file.write(data)

    def flush(self) -> None:
        """Let a reader see it."""
        assert self._file is not None
        self._file.flush()

    def check(self) -> None:
        """InputError: the part that is being written is not there any more."""
        assert self._file is not None
        self._file.check()

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._finish()
        finally:
            os.close(self._lock)

    def _free(self) -> Path:
        """The next part's place."""
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self._begun))
        while True:
            self._last += 1
            path = self._path / f"part-{self._last:06}-{stamp}.kvs"
            if not os.path.lexists(path):
                return path

    def _finish(self) -> None:
        if self._file is None:
            return
        done, self._file = self._file, None
        self._written += done.size
        done.__exit__(None, None, None)
        if (found := _file(done.path)) is not None:
            self._kept.append(_Kept(done.path, found[0], self._wall()))
        else:
            self.removed += 1

    def _taken(self) -> int:
        there = sum(each.size for each in (*self._kept, *self._stuck))
        return there + (self._file.size if self._file else 0)

    def _age(self) -> float:
        return self._wall() - self._kept[0].ended

    def _let_go(self) -> None:
        oldest = self._kept.pop(0)
        try:
            oldest.path.unlink(missing_ok=True)
        except OSError as error:
            if not self._stuck:
                why = (error.strerror or str(error)).lower()
                self._faults[
                    f"{oldest.path} cannot be removed: {why}; it stays, and others are removed in its place"
                ] = None
            self._stuck.append(oldest)
        else:
            self.removed += 1


def parts_of(path: Path) -> list[Path]:
    """Everything that is named as parts are."""
    return sorted((each for each in path.iterdir() if NAME.fullmatch(each.name)), key=number_of)


def number_of(path: Path) -> int:
    """Of what is named as parts are."""
    found = NAME.fullmatch(path.name)
    assert found is not None
    return int(found[1])


def _file(path: Path) -> tuple[int, float] | None:
    """(size, when it was written last) of a file; None of anything else."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return (found.st_size, found.st_mtime) if stat.S_ISREG(found.st_mode) else None


def _strange(named: list[Path]) -> Iterator[str]:
    """A sentence on what is named as a part is, and is no file."""
    found = [each for each in named if _file(each) is None and os.path.lexists(each)]
    if found:
        more = f" (nor are {len(found) - 1} more)" if found[1:] else ""
        yield f"{found[0]} is named as parts are and is no file{more}; it stays as it is"

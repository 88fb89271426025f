"""The folder that incidents are saved in: one folder each, the oldest of which make room for new ones."""

from __future__ import annotations

import errno
import os
import re
import threading
import time
from contextlib import suppress
from pathlib import Path

from kvscope.model.errors import InputError
from kvscope.probe.recording import RECORDS, Frames, RecordingError
from kvscope.sources.locking import locked

QUOTA = 1_000_000_000
LEAST_FREE = 1_000_000
"""Bytes: with less than that on the disk, nothing worth having can be saved."""
RECORDING, ACCOUNT, STACKS = "recording.kvs", "incident.json", "stacks.jsonl"
_UNFINISHED = f"{ACCOUNT}.new"
_FILES = (RECORDING, ACCOUNT, STACKS, _UNFINISHED)
"""What an incident holds. Whatever else somebody put there stays."""
_NAME = re.compile(r"incident-\d{8}T\d{6}Z-[\w.-]+")
_TRIED_BYTES = 1 << 16


class Folder:
    """This process's alone while it lives. One that is removed is made again for the next incident."""

    def __init__(self, path: Path, quota: int = QUOTA) -> None:
        """InputError: it cannot be written, or another one saves there."""
        self.path, self.quota = path.absolute(), quota
        self._lock, self._turn = -1, threading.Lock()
        try:
            self._hold()
            if not os.access(self.path, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, "it may not be written to")
        except OSError as error:
            raise InputError(f"--save-to {path}: {reason_of(error)}; name another folder") from None

    def begin(self, slug: str, wall_s: float) -> Path:
        """A new folder in it, named by the time and by what happened. OSError, InputError: it cannot be made."""
        self._hold()
        stem = f"incident-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(wall_s))}-{slug}"
        for name in (stem, *(f"{stem}-{number}" for number in range(2, 100))):
            try:
                (self.path / name).mkdir()
            except FileExistsError:
                continue
            return self.path / name
        raise OSError(errno.EEXIST, "there are too many of one second", stem)

    def make_room(self, size: int, current: Path) -> bool:
        """Remove the oldest incidents until `size` bytes more may be written to the current one; whether they may."""
        kept = {path: _size(path) for path in self._incidents()}
        kept[current] = _size(current)
        total = sum(kept.values()) + size
        for path in sorted(kept):
            if total <= self.quota:
                break
            if path != current:
                total -= kept[path]
                _remove(path)
        return total <= self.quota

    def tidied(self, path: Path) -> bool:
        """Remove an incident that holds no event, if that can be done; whether it holds any."""
        held = _holds_events(path / RECORDING)
        if not held:
            with suppress(OSError):
                _remove(path)
        return held

    def looked_at(self) -> str:
        """What keeps incidents from being saved here, as far as that is seen without writing; empty: nothing does."""
        try:
            # One that is not there is made, with all that leads to it.
            there = next(each for each in (self.path, *self.path.parents) if each.exists())
            if not there.is_dir():
                return "it is no folder" if there == self.path else f"{there} is no folder"
            disk = os.statvfs(there)
        except OSError as error:
            return reason_of(error)
        if disk.f_flag & os.ST_RDONLY:
            return os.strerror(errno.EROFS).lower()
        if not os.access(there, os.W_OK | os.X_OK):
            return "it may not be written to" if there == self.path else f"{there} may not be written to"
        free = (disk.f_bfree if os.geteuid() == 0 else disk.f_bavail) * disk.f_frsize
        if free < LEAST_FREE:
            return f"less than {LEAST_FREE // 10**6} MB of its disk is free"
        if disk.f_files and not disk.f_ffree:
            return os.strerror(errno.ENOSPC).lower()
        return ""

    def tried(self) -> str:
        """The same, by writing something."""
        try:
            self._hold()
            path = self.path / f".try-{os.getpid()}"
            try:
                path.write_bytes(bytes(_TRIED_BYTES))
            finally:
                path.unlink(missing_ok=True)
        except OSError as error:
            return reason_of(error)
        except InputError as error:
            return str(error)
        return ""

    def close(self) -> None:
        """Leave it to others."""
        with self._turn:
            if self._lock >= 0:
                os.close(self._lock)
            self._lock = -1

    def _hold(self) -> None:
        """Make it and lock it, if it is not there (any more), or is another one by now."""
        with self._turn:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
            except FileExistsError:
                raise NotADirectoryError(errno.ENOTDIR, "it is no folder") from None
            if self._lock >= 0 and os.path.samestat(os.fstat(self._lock), self.path.stat()):
                return
            taken = f"another `kvscope serve` saves into {self.path}; name another folder with --save-to"
            before, self._lock = self._lock, locked(self.path, taken)
            if before >= 0:
                os.close(before)

    def _incidents(self) -> list[Path]:
        return [path for path in self.path.iterdir() if _NAME.fullmatch(path.name) and path.is_dir()]


def reason_of(error: OSError) -> str:
    """What the system has against it, in its words."""
    return (error.strerror or str(error)).lower()


def account_written(folder: Path, text: str) -> None:
    """Put an incident's account in its place, whole. OSError: it cannot be written."""
    made = folder / _UNFINISHED
    try:
        made.write_text(text, encoding="utf-8")
        os.replace(made, folder / ACCOUNT)
    except OSError:
        made.unlink(missing_ok=True)
        raise


def _holds_events(recording: Path) -> bool:
    try:
        with recording.open("rb") as file:
            return any(frame.kind == RECORDS for frame in Frames(file))
    except (OSError, RecordingError):
        return False


def _size(path: Path) -> int:
    found = 0
    for name in _FILES:
        try:
            found += (path / name).stat().st_size
        except OSError:
            continue
    return found


def _remove(path: Path) -> None:
    for name in _FILES:
        (path / name).unlink(missing_ok=True)
    try:
        path.rmdir()
    except OSError:  # somebody put something of their own there
        return

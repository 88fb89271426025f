"""The folder that incidents are saved in: one folder each, the oldest of which make room for new ones."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from kvscope.model.errors import InputError
from kvscope.probe.recording import RECORDS, Frames, RecordingError
from kvscope.sources.locking import locked

QUOTA = 1_000_000_000
RECORDING, ACCOUNT, STACKS = "recording.kvs", "incident.json", "stacks.jsonl"
_UNFINISHED = f"{ACCOUNT}.new"
_FILES = (RECORDING, ACCOUNT, STACKS, _UNFINISHED)
"""What an incident holds. Whatever else somebody put there stays."""
_NAME = re.compile(r"incident-\d{8}T\d{6}Z-[\w.-]+")


class Folder:
    """This process's alone while it lives."""

    def __init__(self, path: Path, quota: int = QUOTA) -> None:
        """InputError: it cannot be written, or another one saves there."""
        self.path, self._quota = path, quota
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = locked(path, f"another `kvscope serve` saves into {path}; name another folder with --save-to")
        except OSError as error:
            raise InputError(
                f"--save-to {path}: {(error.strerror or str(error)).lower()}; name another folder"
            ) from None
        if not os.access(path, os.W_OK | os.X_OK):
            raise InputError(f"--save-to {path}: it may not be written to; name another folder")

    def begin(self, slug: str, wall_s: float) -> Path:
        """A new folder in it, named by the time and by what happened. OSError: it cannot be made."""
        stem = f"incident-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(wall_s))}-{slug}"
        for name in (stem, *(f"{stem}-{number}" for number in range(2, 100))):
            try:
                (self.path / name).mkdir()
            except FileExistsError:
                continue
            return self.path / name
        raise FileExistsError(17, "there are too many of one second", stem)

    def make_room(self, size: int, current: Path) -> bool:
        """Remove the oldest incidents until `size` bytes more may be written to the current one; whether they may."""
        kept = {path: _size(path) for path in self._incidents()}
        kept[current] = _size(current)
        total = sum(kept.values()) + size
        for path in sorted(kept):
            if total <= self._quota:
                break
            if path != current:
                total -= kept[path]
                _remove(path)
        return total <= self._quota

    def tidied(self, path: Path) -> bool:
        """Remove an incident that holds no event; whether it holds any."""
        held = _holds_events(path / RECORDING)
        if not held:
            _remove(path)
        return held

    def close(self) -> None:
        """Leave it to others."""
        os.close(self._lock)

    def _incidents(self) -> list[Path]:
        return [path for path in self.path.iterdir() if _NAME.fullmatch(path.name) and path.is_dir()]


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

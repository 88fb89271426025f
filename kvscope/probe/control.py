"""Switching recording on and off in running processes, and removing what dead ones left."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kvscope.probe import layout
from kvscope.probe.reader import RingError, RingFile, is_own, list_rings, mapped

UNBORN_S = 60


class Refused(RingError):
    """A ring file that may not be written or removed."""


@dataclass(frozen=True)
class Changed:
    """A living process whose control word was set."""

    path: Path
    pid: int
    engine: str
    was_on: bool


def switch(run_dir: Path, engine: str | None, on: bool, faults: list[RingError] | None = None) -> list[Changed]:
    """Set the control words of an engine's living processes (by name, or pid), or of all. They obey at once.

    A file that cannot be read or may not be written is added to `faults`, and the others are switched all the same.
    Where no list is given, the unreadable are passed over, and Refused is raised for what may not be written.
    """
    changed, refused = list[Changed](), list[RingError]()
    for ring in list_rings(run_dir, [] if faults is None else faults):
        try:
            changed += [_set(ring, on)] if ring.alive and _is_meant(ring, engine) else []
        except Refused as error:
            refused.append(error)
    _tell(refused, faults)
    return changed


def restore(changed: Iterable[Changed]) -> None:
    """Set control words back to what `switch` found. Raises RingError, once all were tried, if one may not be."""
    failed = [error for each in changed if (error := _restored(each)) is not None]
    if failed:
        raise failed[0]


def _restored(each: Changed) -> RingError | None:
    try:
        _header_words(each.path)[layout.HEADER_WORD["control"]] = int(each.was_on)
    except FileNotFoundError:
        return None  # the process has ended and its rings were cleared
    except OSError as error:
        return RingError(f"{each.path}: cannot be switched back: {error.strerror}")
    return None


def remove_dead(run_dir: Path, older_than_s: float = 0, faults: list[RingError] | None = None) -> list[Path]:
    """Remove the ring files of dead processes whose last record is at least so old; returns them. `faults` as above."""
    rings = list_rings(run_dir, [] if faults is None else faults)
    dead = [ring.path for ring in rings if not ring.alive and ring.quiet_s() >= older_than_s]
    removed, refused = list[Path](), list[RingError]()
    for path in (*dead, *_unborn(run_dir)):
        try:
            path.unlink(missing_ok=True)
            removed.append(path)
        except OSError as error:
            refused.append(Refused(f"{path}: cannot be removed: {error.strerror}"))
    _tell(refused, faults)
    return removed


def _unborn(run_dir: Path) -> list[Path]:
    """What a process left that was killed while it made its file, which takes no more than a moment."""
    before = time.time() - UNBORN_S
    found = []
    for path in run_dir.glob(".*.ring.new"):
        with suppress(FileNotFoundError):  # born since it was listed
            found += [path] if path.stat().st_mtime < before else []
    return found


def _tell(refused: list[RingError], faults: list[RingError] | None) -> None:
    if refused and faults is None:
        raise refused[0]
    if faults is not None:
        faults += refused


def _is_meant(ring: RingFile, engine: str | None) -> bool:
    return engine is None or engine in (ring.engine, str(ring.header.pid))


def _set(ring: RingFile, on: bool) -> Changed:
    header = ring.header
    try:
        words = _header_words(ring.path)
        if on:
            words[layout.HEADER_WORD["self_off"]] = 0
        words[layout.HEADER_WORD["control"]] = int(on)
    except OSError as error:
        raise Refused(f"{ring.path}: cannot be switched: {error.strerror}; run as the user of the engine") from None
    return Changed(ring.path, header.pid, ring.engine, header.on)


def _header_words(path: Path) -> memoryview:
    """The header's words, writable; unmapped with the last reference."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        return mapped(path, fd, layout.HEADER_BYTES, mmap.ACCESS_WRITE).cast("Q")
    finally:
        if not is_own(path):
            os.close(fd)

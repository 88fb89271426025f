"""Switching recording on and off in running processes, and removing what dead ones left."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kvscope.probe import layout
from kvscope.probe.reader import RingError, RingFile, is_own, list_rings, mapped

UNBORN_S = 60


@dataclass(frozen=True)
class Changed:
    """A living process whose control word was set."""

    path: Path
    pid: int
    engine: str
    was_on: bool


def switch(run_dir: Path, engine: str | None, on: bool) -> list[Changed]:
    """Set the control words of an engine's living processes (by name, or pid), or of all. They obey at once.

    Raises RingError if one may not be written.
    """
    chosen = [ring for ring in list_rings(run_dir, []) if ring.alive and _is_meant(ring, engine)]
    return [_set(ring, on) for ring in chosen]


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


def remove_dead(run_dir: Path, older_than_s: float = 0) -> list[Path]:
    """Remove the ring files of dead processes whose last record is at least so old; returns them."""
    dead = [ring.path for ring in list_rings(run_dir, []) if not ring.alive and ring.quiet_s() >= older_than_s]
    for path in dead:
        _unlink(path)
    return dead + _remove_unborn(run_dir)


def _remove_unborn(run_dir: Path) -> list[Path]:
    """What a process left that was killed while it made its file, which takes no more than a moment."""
    before = time.time() - UNBORN_S
    left = [path for path in run_dir.glob(".*.ring.new") if path.stat().st_mtime < before]
    for path in left:
        _unlink(path)
    return left


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
        raise RingError(f"{ring.path}: cannot be switched: {error.strerror}; run as the user of the engine") from None
    return Changed(ring.path, header.pid, ring.engine, header.on)


def _header_words(path: Path) -> memoryview:
    """The header's words, writable; unmapped with the last reference."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        return mapped(path, fd, layout.HEADER_BYTES, mmap.ACCESS_WRITE).cast("Q")
    finally:
        if not is_own(path):
            os.close(fd)


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise RingError(f"{path}: cannot be removed: {error.strerror}") from None

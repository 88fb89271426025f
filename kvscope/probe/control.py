"""Switching recording on and off in running processes, and removing what dead ones left."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from pathlib import Path

from kvscope.probe import layout
from kvscope.probe.reader import RingError, RingFile, keep_own, list_rings


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


def remove_dead(run_dir: Path, older_than_s: float = 0) -> list[Path]:
    """Remove the ring files of dead processes whose last record is at least so old; returns them."""
    dead = [ring.path for ring in list_rings(run_dir, []) if not ring.alive and ring.quiet_s() >= older_than_s]
    for path in dead:
        _unlink(path)
    return dead


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
    file = open(path, "r+b", buffering=0)  # noqa: SIM115 - see keep_own
    page = mmap.mmap(file.fileno(), layout.HEADER_BYTES)
    keep_own(path, file, page)
    return memoryview(page).cast("Q")


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise RingError(f"{path}: cannot be removed: {error.strerror}") from None

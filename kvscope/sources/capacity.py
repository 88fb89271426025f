"""Whether what is to be read at once fits into memory: a recording that was kept for days does not."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kvscope.model.errors import InputError
from kvscope.probe.recording import FILE_MAGIC
from kvscope.sources.folders import Member

PER_BYTE = 60
"""Bytes of memory that a report takes at its peak for each byte of a recording: 700 an event of 12."""
PER_EVENT = 12


def check_fits(members: Iterable[Member], available: int | None = None) -> None:
    """InputError: to read the recordings among them at once takes more memory than there is. `available`: bytes"""
    packed = sum(member.size for member in members if _is_recording(member.path))
    needed, free = packed * PER_BYTE, _available() if available is None else available
    if free is not None and needed > free:
        raise InputError(
            f"to read some {packed / PER_EVENT / 1e6:,.0f} million events at once takes some {needed / 1e9:,.0f} GB of"
            f" memory, and {free / 1e9:,.0f} GB are free; name the parts of the time that matters (a part's name tells"
            " when it was begun), or go through all of it with `kvscope top --replay` or `kvscope export`"
        )


def _is_recording(path: str) -> bool:
    if not Path(path).is_file():
        return False
    try:
        with open(path, "rb") as file:
            return file.read(len(FILE_MAGIC)) == FILE_MAGIC
    except OSError:
        return False


def _available() -> int | None:
    """Bytes that the kernel would give; None where it does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    found = next((line.split() for line in lines if line.startswith("MemAvailable:")), None)
    return int(found[1]) * 1024 if found else None

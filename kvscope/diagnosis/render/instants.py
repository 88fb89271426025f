"""Instants as people write them: the time of day where it is known, else seconds after the first event."""

from __future__ import annotations

from datetime import UTC, datetime

from kvscope.diagnosis.finding import Diagnosis
from kvscope.diagnosis.onset import Onset


def instant(diagnosis: Diagnosis, t: int) -> str:
    """`02:11:40` (UTC), or `131.2 s`."""
    if diagnosis.wall is None:
        return f"{(t - diagnosis.first) / 1e9:,.1f} s"
    return datetime.fromtimestamp((t + diagnosis.wall) // 10**9, UTC).strftime("%H:%M:%S")


def since(diagnosis: Diagnosis, onset: Onset) -> str:
    """Since when, how surely, what started then, and until when."""
    if onset.at is None:
        told = f"before {instant(diagnosis, diagnosis.first)} (start of data)"
    else:
        told = f"{instant(diagnosis, onset.at)} +-{max(0.1, onset.within_ns / 1e9):.2g} s"
    if onset.until is not None:
        told += f", until {instant(diagnosis, onset.until)}"
    return f"{told}.  {onset.beside} started about then" if onset.beside else told

"""Tracepoints called as the patched lines call them, and what a reader finds of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kvscope.probe import layout, recorder
from kvscope.probe.process import Process
from kvscope.probe.reader import RingFile, list_rings
from kvscope.probe.vocabulary import LEGS, MOMENTS, REASONS, THREADS, UNKNOWN
from kvscope.vllm import scheduler_side, worker_side


@dataclass(frozen=True)
class Moment:
    """A record, with names for its codes."""

    name: str
    t: int
    leg: str
    thread: str
    step: int
    reason: str
    flags: int
    has_peer: bool
    values: tuple[int, ...]
    """Those that are known."""


class Trace:
    """What this process has recorded since the test began."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir

    def moments(self, name: str) -> list[Moment]:
        """Those of a name, in the order in which the calling thread wrote them."""
        return [one for ring in list_rings(self._run_dir) for one in moments(ring) if one.name == name]

    def texts(self) -> dict[int, str]:
        """What the first thread has told, by what stands for it in a value."""
        pairs = (pair for ring in list_rings(self._run_dir) for pair in ring.segments()[0].drain_texts(0)[0])
        return {int.from_bytes(key[:8], "little", signed=True): text for key, text in pairs}

    def faults(self) -> int:
        """Errors in the tracepoints so far."""
        return sum(ring.header.errors for ring in list_rings(self._run_dir))


def moments(ring: RingFile) -> list[Moment]:
    """What the first thread of a process has recorded."""
    raw, _, _ = ring.segments()[0].drain(0)
    bodies = (layout.BODY.unpack_from(raw, at + 8) for at in range(0, len(raw), layout.RECORD_BYTES))
    return [_moment(body) for body in bodies]


def _moment(body: tuple[Any, ...]) -> Moment:
    t, _, peer, moment, leg, thread, _, _, _, step, reason, flags, *values = body
    known = tuple(value for value in values if value != UNKNOWN)
    has_peer = peer != layout.NO_KEY
    return Moment(MOMENTS[moment], t, LEGS[leg], THREADS[thread], step, REASONS[reason], flags, has_peer, known)


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trace]:
    monkeypatch.setenv("KVSCOPE_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setattr(recorder, "_process", Process({}))
    monkeypatch.setattr(recorder, "_main_role", 0)
    recorder.here.__dict__.clear()
    scheduler_side.forget()
    worker_side.forget()
    yield Trace(tmp_path / "run")
    for side in (scheduler_side, worker_side):
        side.state().fold.flush()  # else this process would write it when it ends
    recorder.here.__dict__.clear()
    scheduler_side.forget()
    worker_side.forget()

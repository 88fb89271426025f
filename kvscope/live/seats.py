"""Which engine everything in a picture belongs to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvscope.live.snapshot import Snapshot
from kvscope.model.engines import Engines, gather_engines
from kvscope.model.events import Process
from kvscope.probe.vocabulary import UNKNOWN

LEGS = ("prefill", "decode")


@dataclass(frozen=True)
class Seats:
    """Engines, one per start, and the index of the one where each process and each leg of a request was; -1: none."""

    engines: tuple[Process, ...]
    members: tuple[tuple[Process, ...], ...]
    """processes of each engine"""
    of_process: np.ndarray
    """(processes,)"""
    on: dict[str, np.ndarray]
    """leg -> (requests of the window,)"""
    heard: np.ndarray
    """(engines,) ns of the latest event; UNKNOWN where there never was one"""

    def __len__(self) -> int:
        return len(self.engines)

    def counts(self, leg: str, rows: np.ndarray) -> np.ndarray:
        """(engines,) requests, among `rows` (n,) bool, that had the leg there."""
        seat = self.on[leg][rows]
        return np.bincount(seat[seat >= 0], minlength=len(self))


def seats_of(snapshot: Snapshot) -> Seats:
    """Lay a picture out by engine."""
    found = gather_engines(snapshot.processes)
    window = snapshot.window
    where = np.array([*(_index_of(found, process) for process in window.engines), -1], int)
    members: list[list[Process]] = [[] for _ in found.engines]
    heard = np.full(len(members), UNKNOWN)
    latest = snapshot.heard or (UNKNOWN,) * len(snapshot.processes)
    for process, index, ns in zip(snapshot.processes, found.of_process.tolist(), latest, strict=True):
        members[index].append(process)
        heard[index] = max(int(heard[index]), ns)
    on = {"prefill": where[window.prefill_engine], "decode": where[window.decode_engine]}
    return Seats(found.engines, tuple(map(tuple, members)), found.of_process, on, heard)


def _index_of(engines: Engines, process: Process) -> int:
    """-1 for one that the picture does not list."""
    found = engines.by_text.get(process.engine_id, -1) if process.engine_id else -1
    return found if found >= 0 else max(-1, engines.by_text.get(process.engine, -1))

"""Which engine a process belongs to. An engine that was restarted is another engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kvscope.model.events import Process
from kvscope.probe.vocabulary import UNKNOWN

NOT_TOLD = -1
"""No peer engine was named."""
DARK = -2
"""A peer engine was named, and nothing was recorded there."""


@dataclass(frozen=True)
class Engines:
    """Engines by index, and how to find one by the name that another engine gave it."""

    engines: tuple[Process, ...]
    """One process of each engine, one engine per start."""
    of_process: np.ndarray
    """(processes,) i4: engine index"""
    by_text: dict[str, int]
    """engine id, or stable name where it means one engine only -> engine index"""

    def resolve(self, keys: np.ndarray, texts: dict[int, str]) -> np.ndarray:
        """Engine indices of keys as records carry them (i8): NOT_TOLD, DARK or an index."""
        told, inverse = np.unique(keys, return_inverse=True)
        found = np.array([self._find(int(key), texts) for key in told], np.int32)
        return found[inverse] if len(keys) else np.empty(0, np.int32)

    def _find(self, key: int, texts: dict[int, str]) -> int:
        if key in (UNKNOWN, 0):
            return NOT_TOLD
        index = self.by_text.get(texts.get(key & 0xFFFF_FFFF_FFFF_FFFF, ""), DARK)
        return DARK if index >= 0 and self.engines[index].note else index


def gather_engines(processes: tuple[Process, ...]) -> Engines:
    """Engines of the processes. A process that does not know its engine's id takes the only one of that name."""
    ids: dict[str, set[str]] = {}
    for process in processes:
        ids.setdefault(process.engine, set()).update({process.engine_id} - {""})
    index: dict[tuple[str, str], int] = {}
    first: list[Process] = []
    of_process = np.zeros(len(processes), np.int32)
    for position, process in enumerate(processes):
        known = ids[process.engine]
        engine_id = process.engine_id or (next(iter(known)) if len(known) == 1 else "")
        key = (engine_id, "") if engine_id else (process.engine, process.host)
        if key not in index:
            index[key] = len(first)
            first.append(process)
        of_process[position] = index[key]
    return Engines(tuple(first), of_process, _names(first))


def _names(engines: list[Process]) -> dict[str, int]:
    by_text = {engine.engine_id: index for index, engine in enumerate(engines) if engine.engine_id}
    alike = Counter(engine.engine for engine in engines)
    for index, engine in enumerate(engines):
        by_text.setdefault(engine.engine, index if alike[engine.engine] == 1 else NOT_TOLD)
    return by_text


class Merged:
    """Engines of several tables in one, told apart by name and id. Each keeps its place for good."""

    def __init__(self) -> None:
        self._index: dict[tuple[str, str, str], int] = {}
        self._processes: list[Process] = []

    @property
    def processes(self) -> tuple[Process, ...]:
        """All of them, as they were said to be first."""
        return tuple(self._processes)

    def places(self, table: Sequence[Process]) -> np.ndarray:
        """(n,) i4 where each of these is."""
        return np.array([self._place(process) for process in table], np.int32)

    def _place(self, process: Process) -> int:
        key = (process.engine, process.engine_id, process.host if not process.engine_id else "")
        at = self._index.setdefault(key, len(self._processes))
        if at == len(self._processes):
            self._processes.append(process)
        return at

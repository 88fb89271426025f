"""The engines that are told of: by their stable names, over restarts, until they have been gone for a while."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kvscope.analysis.setup import is_router, label_of
from kvscope.metrics.catalogue import ROOM, most_series
from kvscope.metrics.labels import ENGINE, GROUP, UNTOLD
from kvscope.metrics.tables import Labels, Rows
from kvscope.model.events import Process

GONE_NS = 300_000_000_000
"""An engine is told of for so long after its last process ended. Five minutes, as far as Prometheus looks back: its
last counts are scraped at a leisurely interval too, and one that comes back in time goes on where it was."""
Key = tuple[str, str, str, int, int | None]


def key_of(process: Process) -> Key:
    """What tells processes apart. A container that is started anew often has the pids that it had: so their clocks,
    which no two of them read alike, are part of it."""
    return process.engine, process.engine_id, process.host, process.pid, process.wall_ns


@dataclass
class Engine:
    """One engine, whatever process it is now."""

    name: str
    labels: Labels | None = None
    """None: nothing is told of it yet"""
    row: int = -1
    facts: dict[str, Any] = field(default_factory=dict)
    """what its processes told at their start, the latest over the earlier"""
    processes: dict[Key, Process] = field(default_factory=dict)
    """those that run or ended last"""
    starts: set[str] = field(default_factory=set)
    """engine ids seen"""
    heard: int | None = None
    """ns of its latest event"""
    ended: int | None = None
    """when its last process was found to have ended"""

    @property
    def recording(self) -> bool:
        """Whether any of its processes records now."""
        return any(not (each.ended or each.off or each.note) for each in self.processes.values())


class Roll:
    """Engines by name; and the rows that they and their groups (model and connector) have in the tables.

    An engine has none before it told what it is, or something is to be counted: its first process does not know.
    """

    def __init__(self) -> None:
        self.rows, self.groups = Rows(ENGINE), Rows(GROUP)
        self.engines: dict[str, Engine] = {}
        self._leaving: dict[Labels, int] = {}
        """labels that no engine has any more -> since when"""

    def see(self, processes: Iterable[Process], now: int) -> None:
        """Take the whole process table. An engine that had ended before it was ever seen is left out."""
        for process in processes:
            engine = self.engines.get(label_of(process))
            if engine is None and not process.ended and not is_router(process):
                engine = self.engines[label_of(process)] = Engine(label_of(process))
            if engine is not None and engine.processes.get(key_of(process)) != process:
                self._learn(engine, process, now)

    def _learn(self, engine: Engine, process: Process, now: int) -> None:
        key = key_of(process)
        if process.ended and key not in engine.processes:
            return  # an earlier start, which nobody saw
        if key not in engine.processes:
            engine.processes = {known: each for known, each in engine.processes.items() if not each.ended}
        engine.processes[key] = process
        engine.starts |= {process.engine_id} - {""}
        running = any(not each.ended for each in engine.processes.values())
        engine.ended = None if running else (now if engine.ended is None else engine.ended)
        if not process.ended:
            engine.facts |= process.started
        if engine.facts or process.note:
            self._place(engine, now)

    def _place(self, engine: Engine, now: int) -> None:
        """Give it the row of its labels. Those that it had stay for a while, as of an engine that is gone."""
        labels = _word(engine.facts.get("model")), _word(engine.facts.get("dp_rank")), engine.name
        if labels == engine.labels:
            return
        if engine.labels is not None:
            self._leaving[engine.labels] = now
        engine.labels, engine.row = labels, self.rows.row(labels)
        self._leaving.pop(labels, None)
        if {"model", "connector"} & engine.facts.keys():
            self.group(engine)  # its zeros are told before anything is counted

    def expired(self, now: int) -> Iterator[int]:
        """Let engines go that ended long ago; their rows, to be cleared."""
        for name, engine in list(self.engines.items()):
            if engine.ended is not None and now - engine.ended >= GONE_NS:
                del self.engines[name]
                if engine.labels is not None:
                    self._leaving[engine.labels] = engine.ended
        for labels, since in list(self._leaving.items()):
            if now - since >= GONE_NS:
                del self._leaving[labels]
                if labels in self.rows:
                    yield self.rows.drop(labels)

    def seats(self, processes: Sequence[Process], used: np.ndarray, now: int) -> np.ndarray:
        """(processes + 1, 2) row and group of the engine of each that is `used`: indices that something is counted of.

        -1 for others, for routers, and at the end, so that an index of -1 gives none.
        """
        found = np.full((len(processes) + 1, 2), -1)
        for index in np.unique(used[used >= 0]).tolist():
            engine = self.engines.get(label_of(processes[index]))
            if engine is not None:
                self._place(engine, now)
                found[index] = engine.row, self.group(engine)
        return found

    def group(self, engine: Engine) -> int:
        """The row of its model and connector."""
        return self.group_of(_word(engine.facts.get("model")), _word(engine.facts.get("connector")))

    def group_of(self, model: str, connector: str) -> int:
        """The row of a model on a connector: one of its own, if there is room."""
        labels = model, connector
        fits = labels in self.groups or most_series(len(self.rows), len(self.groups) + 1) <= ROOM
        return self.groups.row(labels) if fits else self.groups.rest


def _word(told: object) -> str:
    """vLLM's labels hold the first of several names of a model."""
    if isinstance(told, list):
        told = told[0] if told else None
    return UNTOLD if told is None else str(told)

"""What engines said of themselves in the last while: steps, load, handshakes. Bounded."""

from __future__ import annotations

import numpy as np

from kvscope.core.legs import ENGINE
from kvscope.model.events import EVENT, Events, Process, picked, stacked
from kvscope.model.membership import among
from kvscope.probe.vocabulary import MOMENT_CODE, UNKNOWN

MOST = 200_000
MEETINGS = (MOMENT_CODE["handshake_begun"], MOMENT_CODE["handshake_ended"])
LOAD = MOMENT_CODE["load"]


class Scoped:
    """Engine-scoped rows of all processes, oldest first, with the process table."""

    def __init__(self, keep_ns: int, most: int = MOST) -> None:
        self._keep_ns, self._most = keep_ns, most
        self._index: dict[tuple[str, str, str, int], int] = {}
        self._processes: list[Process] = []
        self._texts: dict[int, str] = {}
        self._chunks: list[np.ndarray] = []
        self._heard: list[int] = []
        self._loads: dict[int, np.ndarray] = {}

    @property
    def heard(self) -> tuple[int, ...]:
        """ns of the latest event of each process, whatever it was; UNKNOWN of those that were only listed."""
        return tuple(self._heard)

    @property
    def processes(self) -> tuple[Process, ...]:
        """Every process seen, by what was last said of it."""
        return tuple(self._processes)

    def add(self, events: Events, now: int) -> None:
        """Take a batch; forget what is too old or too much."""
        where = np.array([self._place(process) for process in events.processes], np.uint32)
        rows = events.rows
        self._hear(where[rows["process"]], np.minimum(rows["t"], now))
        rows = picked(rows, (rows["leg"] == ENGINE) | among(rows["moment"], *MEETINGS))
        if len(rows):
            rows["process"] = where[rows["process"]]
            self._chunks.append(rows)
            self._remember(rows[rows["moment"] == LOAD])
        self._texts |= self._names(events)
        self._trim(now)

    def since(self, begin: int) -> Events:
        """Rows from `begin` (ns) on, and each load told before that still holds: a load is told when it changes."""
        holding = [row for row in self._loads.values() if int(row["t"][0]) < begin]
        chunks = (_from(chunk, begin) for chunk in self._chunks)
        return Events(stacked((np.empty(0, EVENT), *holding, *chunks)), self.processes, self._texts)

    def _place(self, process: Process) -> int:
        key = (process.engine, process.engine_id, process.host, process.pid)
        at = self._index.setdefault(key, len(self._processes))
        if at == len(self._processes):
            self._processes.append(process)
            self._heard.append(UNKNOWN)
        self._processes[at] = process
        return at

    def _hear(self, process: np.ndarray, t: np.ndarray) -> None:
        latest = np.array(self._heard, np.int64)
        np.maximum.at(latest, process, t)
        self._heard = latest.tolist()

    def _remember(self, loads: np.ndarray) -> None:
        """The latest load of each process."""
        newest_first = loads[np.argsort(loads["t"], kind="stable")[::-1]]
        _, newest = np.unique(newest_first["process"], return_index=True)
        self._loads |= {int(newest_first["process"][at]): newest_first[[at]] for at in newest}

    def _names(self, events: Events) -> dict[int, str]:
        """Texts of engines alone: those of requests would pile up."""
        named = {process.engine for process in self._processes} | {each.engine_id for each in self._processes}
        return {key: text for key, text in events.texts.items() if text in named}

    def _trim(self, now: int) -> None:
        while self._chunks and int(self._chunks[0]["t"].max()) < now - self._keep_ns:
            del self._chunks[0]
        while len(self._chunks) > 1 and sum(map(len, self._chunks)) > self._most:
            del self._chunks[0]


def _from(rows: np.ndarray, begin: int) -> np.ndarray:
    inside = rows["t"] >= begin
    return rows if inside.all() else picked(rows, inside)

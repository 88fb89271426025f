"""Where things happened, as tracks: engine, process, thread. The page orders the root's by name: hence the digits."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from kvscope.export.perfetto.axis import Axis
from kvscope.export.perfetto.lanes import Lanes
from kvscope.export.perfetto.tracks import Tracks
from kvscope.model.engines import Engines, gather_engines
from kvscope.model.events import Events, Process
from kvscope.probe.vocabulary import LEG_CODE, THREAD_CODE, THREADS

REQUESTS = "1 requests"
_SIDES = {"prefill": "2 prefill", "decode": "3 decode", "engine": "3 engine", "router": "4 router"}
_ROLES = {"kv_producer": "prefill", "kv_consumer": "decode", "kv_both": "engine"}
_LEGS = {LEG_CODE[name]: name for name in ("prefill", "decode", "router")}

REQUESTS_ARE = (
    "All requests, and one slice for the whole recording: its arguments tell its clocks and what was lost. Failures of"
    " all engines are instants here. Below: one slice for each request, from its origin to its first token, in the"
    " colour of what it spent most on."
)

LOAD, PROCESSES, LEGS = 1, 10, 1 << 24
"""Ranks of what lies below an engine. Legs come last: as many rows as requests were running at once."""
_KINDS = {"api": 0, "core": 1, "worker": 2}
"""Processes of an engine, in the order in which a request passes them."""
_STEPPING = tuple(THREAD_CODE[name] for name in ("core", "worker", "unknown"))
"""Threads that have steps: what else takes time on them is drawn below, since it need not end within a step."""

_OTHERS = 300
"""Rank of threads whose role is not known, behind those whose is."""
SAMPLED_IS = "A thread of which sampled stacks alone tell."

THREAD_IS: dict[str, str] = {
    "api": "The API server's event loop.",
    "input": "The engine core's input thread: requests arrive here and wait for the core to drain them between steps.",
    "core": "The engine core's main thread: one slice for each step; the scheduler's moments are instants.",
    "worker": "The worker's main thread, which runs the forward: one slice for each step, with the connector's share.",
    "writer": "The push connector's writer: registrations and transfers are prepared, sent and drained here.",
    "handshake": "First contacts with peer engines.",
    "listener": "Answers the first contacts of peer engines.",
    "reader": "The connector's background reader.",
    "router": "The router: when it got, sent on and answered each request.",
}


Identity = tuple[str, str]


@dataclass(frozen=True)
class Part:
    """What lies below a thread."""

    name: str
    rank: int
    description: str


DRAINS = Part(
    "between drains",
    100,
    "Stretches in which the writer did not look for registrations: one that came then waited. Each was told by what the"
    " drain at its end brought.",
)
DOING = Part("doing", 102, "What the thread did, as far as its sampled stacks tell (docs/profile.md).")
STACK = Part("stack", 103, "Where in the code it was, by sampled stacks: callers above what they called.")
CONNECTOR = Part("connector", 101, "Transfers being prepared and submitted on this thread.")


class Places:
    """Tracks of engines, processes and threads; each is made when something is drawn on it."""

    def __init__(self, tracks: Tracks, axis: Axis) -> None:
        self._tracks, self._axis = tracks, axis
        self._sides: dict[Identity, set[str]] = {}
        self._roots: dict[Identity, int] = {}
        self._lanes: dict[tuple[str, int, int], Lanes] = {}
        self._shifts = np.empty(0, np.int64)
        self.requests = tracks.track(("requests",), REQUESTS, description=REQUESTS_ARE)
        """The track of all requests; what is told of the recording as a whole is drawn there, too."""
        self.processes: tuple[Process, ...] = ()
        self.engines: Engines = gather_engines(())
        self.ranked = np.empty(0, bool)
        """(processes,) bool: whether the moments of each tell a rank even where that is 0"""

    def meet(self, events: Events) -> None:
        """Learn which processes there are, and on which side each engine is."""
        self.processes, self.engines = events.processes, gather_engines(events.processes)
        self.ranked = np.array([_ranked(process) for process in self.processes], bool)
        self._shifts = self._axis.shifts(self.processes, int(events.rows["t"].min(initial=0)))
        if not len(events):
            return
        engine = self.engines.of_process[events.rows["process"]].astype(np.int64)
        for key in np.unique(engine << 8 | events.rows["leg"]).tolist():
            if key & 0xFF in _LEGS:
                told = self._sides.setdefault(identity(self.engines.engines[key >> 8]), set())
                told.add(_LEGS[key & 0xFF])

    def threads(self, process: np.ndarray, thread: np.ndarray) -> np.ndarray:
        """(n,) u8 track of each thread"""
        keys, inverse = np.unique(process.astype(np.int64) << 8 | thread, return_inverse=True)
        found = np.array([self.thread(key >> 8, key & 0xFF) for key in keys.tolist()], np.uint64)
        return found[inverse] if len(keys) else np.empty(0, np.uint64)

    def thread(self, process: int, thread: int, lane: int = 0) -> int:
        """The track of a thread; other lanes of it are drawn as further rows."""
        role = _role(thread)
        name, parent = _called(self.processes[process].engine, role), self._process(process)
        return self._tracks.track(("thread", process, thread, lane), name, parent, thread, THREAD_IS.get(role, ""))

    def below(self, process: int, thread: int, part: Part, lane: int = 0) -> int:
        """A track below that of a thread."""
        name = f"{_called(self.processes[process].engine, _role(thread))}: {part.name}"
        parent = self.thread(process, thread)
        return self._tracks.track((part.name, process, thread, lane), name, parent, part.rank, part.description)

    def sampled(self, process: int, thread: int, tid: int, name: str, part: Part) -> int:
        """The track for what sampled stacks tell of a thread. One whose role is not known has its own name."""
        if thread:
            parent, told = self.thread(process, thread), _called(self.processes[process].engine, _role(thread))
        else:
            told = f"{self.processes[process].engine} {name}"
            parent = self._tracks.track(("sampled", process, tid), told, self._process(process), _OTHERS, SAMPLED_IS)
        return self._tracks.track(
            (part.name, process, tid), f"{told}: {part.name}", parent, part.rank, part.description
        )

    def laned(
        self, part: Part, process: np.ndarray, thread: np.ndarray, begin: np.ndarray, end: np.ndarray
    ) -> np.ndarray:
        """(n,) u8 track of each slice of a kind on a thread: none overlaps another there. What is the connector's lies
        on the thread itself where nothing else takes time there."""
        tracks = np.zeros(len(begin), np.uint64)
        keys = process.astype(np.int64) << 8 | thread
        for key in np.unique(keys).tolist():
            mine, where = np.flatnonzero(keys == key), (key >> 8, key & 0xFF)
            lanes = self._lanes.setdefault((part.name, *where), Lanes()).place(begin[mine], end[mine])
            itself = part is CONNECTOR and where[1] not in _STEPPING
            made = [
                self.thread(*where, lane) if itself else self.below(*where, part, lane)
                for lane in range(int(lanes.max()) + 1)
            ]
            tracks[mine] = np.array(made, np.uint64)[lanes]
        return tracks

    def moved(self, process: np.ndarray, t: np.ndarray) -> np.ndarray:
        """(n,) i8 times t of processes on the axis of the trace"""
        return np.asarray(np.maximum(t + self._shifts[process], 0))

    def times(self, rows: np.ndarray) -> np.ndarray:
        """(n,) i8 when rows (dtype EVENT) happened, on the axis of the trace"""
        return self.moved(rows["process"], rows["t"])

    def engine(self, number: int) -> int:
        """The track of an engine, by its number in `engines`."""
        process = self.engines.engines[number]
        key = identity(process)
        if key not in self._roots:
            self._roots[key] = self._tracks.track(("engine", key), process.engine, description=_versions(process))
        return self._roots[key]

    def engine_of(self, process: int) -> int:
        """The track of the engine that a process belongs to."""
        return self.engine(int(self.engines.of_process[process]))

    def engine_shifts(self) -> np.ndarray:
        """(engines + 1,) i8 ns to add to the times of each engine; the last: of none"""
        first = [self.processes.index(engine) for engine in self.engines.engines]
        return np.append(self._shifts[first], self._axis.floor)

    def number_of(self, engine: Process) -> int:
        """The number that an engine of the splits has here; -1: none."""
        found = (at for at, known in enumerate(self.engines.engines) if identity(known) == identity(engine))
        return next(found, -1)

    def call(self) -> None:
        """Give engines and processes the names that are right for the whole recording."""
        starts = Counter[str]()
        for key in self._roots:
            starts[key[0]] += 1
            again = f", start {starts[key[0]]}" if starts[key[0]] > 1 else ""
            self._tracks.rename(("engine", key), f"{_called(_SIDES[self._side(key)], key[0])}{again}")
        for number in range(len(self.processes)):
            self._tracks.rename(("process", number), self.process_name(number))

    def process_name(self, number: int) -> str:
        """What it is, its rank where there are several, its pid, and its host where there are several."""
        process = self.processes[number]
        told = process.started
        name = f"{told.get('process') or told.get('kind') or ''} process".lstrip()
        name += f" rank {told.get('rank')}" if _ranked(process) else ""
        name += f", pid {process.pid}" if process.pid else ""
        if self._axis.several:
            name += f", host {process.host or 'not told'}"
            name += "" if process.host in ("", self._axis.hosts[0]) else ", a clock of its own"
        return name

    def _side(self, key: Identity) -> str:
        alike = [process.started for process in self.processes if process.engine == key[0]]
        if any(told.get("kind") == "router" for told in alike):
            return "router"
        roles = (_ROLES.get(str(told.get("role")), "") for told in alike)
        role = next(filter(None, roles), "")
        seen = self._sides.get(key, set())
        return role or (next(iter(seen)) if len(seen) == 1 else "engine")

    def _process(self, number: int) -> int:
        process = self.processes[number]
        kind = _KINDS.get(str(process.started.get("process")), len(_KINDS))
        parent, rank = self.engine_of(number), PROCESSES + (kind << 16) + number
        return self._tracks.track(("process", number), "", parent, rank, _versions(process))


def _called(first: str, second: str) -> str:
    """`p0 writer`, but `router` and not `router router`."""
    return first if first.endswith(second) else f"{first} {second}"


def identity(process: Process) -> Identity:
    """What tells an engine from others, and from itself before a restart."""
    return process.engine, process.engine_id or process.host


def _ranked(process: Process) -> bool:
    """Whether its moments tell a rank even where that is 0."""
    sizes = [process.started.get(name) for name in ("tp", "pp")]
    return any(isinstance(size, int) and size > 1 for size in sizes)


def _role(thread: int) -> str:
    return THREADS[thread] if 0 < thread < len(THREADS) else "thread"


def _versions(process: Process) -> str:
    told = process.started
    words = [f"{what} {told[what]}" for what in ("vllm", "nixl", "connector", "mode", "role", "model") if what in told]
    return ", ".join([*words, f"engine id {process.engine_id}"] if process.engine_id else words)

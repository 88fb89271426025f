"""What a diagnosis keeps of the events themselves: a recording is gone through in pieces, and of each little is left.

Of most events nothing is asked once their requests are split. What is kept of the others are columns of a few bytes a
row, and whole rows of what is rare. It is put in an order of its own in the end: how the events came leaves no trace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kvscope.core.legs import within_bounds
from kvscope.model.events import EVENT, Events, Process, picked, stacked
from kvscope.model.membership import among
from kvscope.model.splits import CARVE, Splits
from kvscope.model.wallclock import WallClock
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE, REASON_CODE, UNKNOWN, VALUES

TEXT_KEY = 0xFFFF_FFFF_FFFF_FFFF
NEVER = np.iinfo(np.int64).max
NOT_ASKED = ("step", "thread", "slack")
"""Columns of Splits."""
_STEP, _LOAD, _HELD, _QUEUED, _STARTED, _FAILED, _BEGUN, _ENDED = (
    MOMENT_CODE[name]
    for name in ("step", "load", "held", "queued", "started", "failed", "handshake_begun", "handshake_ended")
)
_BEGIN, _FOLDED = (VALUES["step"].index(name) for name in ("begin", "folded"))
_RUNNING, _FREE = (VALUES["load"].index(name) for name in ("running", "free_blocks"))
_PEER = VALUES["queued"].index("peer_engine")
_BLOCKS, _DECODE = REASON_CODE["blocks"], LEG_CODE["decode"]


class Kept:
    """Takes the events of a recording, those that can be, in pieces. Every piece has the same processes."""

    def __init__(self) -> None:
        self.processes: tuple[Process, ...] = ()
        """As the latest piece had them."""
        self.clock = WallClock()
        self.texts: dict[int, str] = {}
        """key -> text of the engines that requests were told of"""
        self._first = self._last = np.empty(0, np.int64)
        self._rare = [np.empty(0, EVENT)]
        self._columns: defaultdict[str, list[np.ndarray]] = defaultdict(list)

    def take(self, events: Events) -> None:
        """Keep what is needed of them; the events themselves are let go."""
        self.processes = events.processes
        self.clock.take(events)
        rows = events.rows
        t, process = np.ascontiguousarray(rows["t"]), np.ascontiguousarray(rows["process"])
        moment = np.ascontiguousarray(rows["moment"])
        self._reach(t, process.astype(np.intp))
        self._rare.append(picked(rows, among(moment, _STARTED, _FAILED, _BEGUN, _ENDED)))
        self._keep_steps(rows, np.flatnonzero(moment == _STEP))
        self._keep_loads(rows, np.flatnonzero(moment == _LOAD))
        at = np.flatnonzero(moment == _HELD)
        self._put("held", request=rows["request"][at[rows["reason"][at] == _BLOCKS]])
        self._keep_told(rows, np.flatnonzero(moment == _QUEUED), events.texts)

    def _reach(self, t: np.ndarray, process: np.ndarray) -> None:
        more = len(self.processes) - len(self._first)
        self._first = np.concatenate((self._first, np.full(more, NEVER)))
        self._last = np.concatenate((self._last, np.full(more, UNKNOWN)))
        np.minimum.at(self._first, process, t)
        np.maximum.at(self._last, process, t)

    def _keep_steps(self, rows: np.ndarray, at: np.ndarray) -> None:
        """Steps with a forward."""
        t, begin, folded = rows["t"][at], rows["values"][at, _BEGIN], rows["values"][at, _FOLDED]
        worked = (begin != UNKNOWN) & ((folded == UNKNOWN) | (folded == 0)) & (t >= begin)
        self._put("step", process=rows["process"][at[worked]], begin=begin[worked], ns=(t - begin)[worked])

    def _keep_loads(self, rows: np.ndarray, at: np.ndarray) -> None:
        free, running = rows["values"][at, _FREE], rows["values"][at, _RUNNING]
        self._put("load", process=rows["process"][at], t=rows["t"][at], free=free, running=running)

    def _keep_told(self, rows: np.ndarray, at: np.ndarray, texts: dict[int, str]) -> None:
        """Whom decode was told that it gets its blocks from."""
        at = at[(rows["leg"][at] == _DECODE) & (rows["request"][at] != 0)]
        told = rows["values"][at, _PEER]
        at, told = at[told != UNKNOWN], told[told != UNKNOWN]
        self._put("told", request=rows["request"][at], t=rows["t"][at], engine=told)
        keys = (key & TEXT_KEY for key in np.unique(told).tolist())
        self.texts |= {key: texts[key] for key in keys if key in texts}

    def _put(self, kind: str, **columns: np.ndarray) -> None:
        for name, values in columns.items():
            self._columns[f"{kind} {name}"].append(values)

    def column(self, kind: str, name: str) -> np.ndarray:
        """(k,) one column of a kind of row, in the order in which the pieces came."""
        laid = np.concatenate(self._columns[f"{kind} {name}"])
        self._columns[f"{kind} {name}"] = [laid]
        return laid

    def rare(self, *moments: str) -> np.ndarray:
        """Rows, dtype EVENT, of moments that are few, by time: `started`, `failed`, `handshake_begun`, `.._ended`."""
        self._rare = [stacked(self._rare)]
        rows = self._rare[0]
        rows = picked(rows, among(rows["moment"], *(MOMENT_CODE[name] for name in moments)))
        keys = [rows["values"][:, 0], *(rows[name] for name in ("reason", "leg", "request", "process", "t"))]
        return picked(rows, np.lexsort(keys))

    def offset(self, t: int) -> int | None:
        """What to add to t (ns) of the first host that tells it to get ns since 1970; None: none does."""
        offsets = (self.clock.offset(process.host, t) for process in self.processes)
        return next((offset for offset in offsets if offset is not None), None)

    def reaches(self, engine: np.ndarray, engines: int) -> tuple[np.ndarray, np.ndarray]:
        """(engines,) ns of each one's first and latest event, UNKNOWN where there is none. engine: (processes,)"""
        latest, first = np.full(engines, UNKNOWN), np.full(engines, NEVER)
        known = engine >= 0
        np.maximum.at(latest, engine[known], self._last[known])
        np.minimum.at(first, engine[known], self._first[known])
        return np.where(first == NEVER, UNKNOWN, first), latest


def kept_of(pieces: Sequence[Events]) -> Kept:
    """What is left of them."""
    kept = Kept()
    for events in pieces:
        kept.take(replace(events, rows=within_bounds(events)[0]))
    return kept


def slim(splits: Splits) -> Splits:
    """Without the columns that no case asks for: half of what a request takes."""
    left: dict[str, Any] = dict.fromkeys(NOT_ASKED, np.empty((len(splits), 0)))
    return replace(splits, carves=np.empty(0, CARVE), walks=splits.walks[:, :1].copy(), **left)

"""Steps and loads of engines, and processes, as the columns of their tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kvscope.model.events import Process, picked
from kvscope.probe.vocabulary import MOMENT_CODE, THREADS, UNKNOWN, VALUES
from kvscope.sources.keys import sound
from kvscope.sources.parquet.rows import coded, numbers, words_at

STEP, LOAD = MOMENT_CODE["step"], MOMENT_CODE["load"]
Columns = dict[str, pa.Array]


def step_columns(rows: np.ndarray, processes: Sequence[Process]) -> Columns:
    """The steps among rows (dtype EVENT)."""
    steps = picked(rows, rows["moment"] == STEP)
    begin, end = _value(steps, "step", "begin"), np.ascontiguousarray(steps["t"])
    told = {
        f"{name}": numbers(_value(steps, "step", name)) for name in ("requests", "tokens", "connector_ns", "folded")
    }
    return {
        "begin_ns": numbers(begin),
        "end_ns": pa.array(end),
        "duration_ns": numbers(np.where(begin == UNKNOWN, UNKNOWN, end - begin)),
        "thread": coded(steps["thread"], THREADS),
        "rank": pa.array(steps["rank"].astype(np.int32)),
        "step": numbers(steps["step"].astype(np.int64), 0),
        **_who(steps, processes),
        **told,
    }


def load_columns(rows: np.ndarray, processes: Sequence[Process]) -> Columns:
    """The loads among rows (dtype EVENT)."""
    loads = picked(rows, rows["moment"] == LOAD)
    told = {name: numbers(_value(loads, "load", name)) for name in VALUES["load"]}
    return {"t": pa.array(np.ascontiguousarray(loads["t"])), **_who(loads, processes), **told}


def _value(rows: np.ndarray, moment: str, name: str) -> np.ndarray:
    return np.ascontiguousarray(rows["values"][:, VALUES[moment].index(name)])


def _who(rows: np.ndarray, processes: Sequence[Process]) -> Columns:
    process = rows["process"].astype(np.int32)
    return {
        "process": pa.array(process),
        "engine": words_at(process, [each.engine for each in processes]),
        "engine_id": words_at(process, [each.engine_id for each in processes]),
    }


@dataclass
class Counted:
    """What each process has in `events`. Arrays by number of the process."""

    events: np.ndarray
    first: np.ndarray
    last: np.ndarray

    @classmethod
    def none(cls) -> Counted:
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))

    def take(self, rows: np.ndarray, processes: int) -> None:
        """Count rows (dtype EVENT), which are by time and later than those before."""
        more = processes - len(self.events)
        self.events = np.append(self.events, np.zeros(more, np.int64))
        self.first, self.last = (np.append(each, np.full(more, UNKNOWN)) for each in (self.first, self.last))
        process, t = np.ascontiguousarray(rows["process"]), np.ascontiguousarray(rows["t"])
        first = self.last.copy()
        first[process[::-1]] = t[::-1]  # of several, the one that comes last stays
        self.first = np.where(self.events > 0, self.first, first)
        self.last[process] = t
        self.events += np.bincount(process, minlength=processes)


def process_columns(processes: Sequence[Process], counted: Counted) -> Columns:
    """Who recorded. `counted` knows of each."""
    number = np.arange(len(processes), dtype=np.int32)
    seen = counted.events > 0
    return {
        "process": pa.array(number),
        "engine": words_at(number, [each.engine for each in processes]),
        "engine_id": words_at(number, [each.engine_id for each in processes]),
        "host": words_at(number, [each.host for each in processes]),
        "pid": pa.array([each.pid for each in processes], pa.int64()),
        "events": pa.array(counted.events),
        "first_ns": pa.array(counted.first, mask=~seen),
        "last_ns": pa.array(counted.last, mask=~seen),
        "lost": pa.array([each.lost for each in processes], pa.int64()),
        "earlier": pa.array([each.earlier for each in processes], pa.int64()),
        "note": pa.array([sound(each.note) for each in processes], pa.string()),
        "ended": pa.array([each.ended for each in processes], pa.bool_()),
        "off": pa.array([each.off for each in processes], pa.bool_()),
        "wall_offset_ns": pa.array([each.wall_ns for each in processes], pa.int64()),
        "started": pa.array([json.dumps(each.started, default=str) for each in processes], pa.string()),
        "gaps": pa.array([json.dumps([vars(gap) for gap in each.gaps]) for each in processes], pa.string()),
    }

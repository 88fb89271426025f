"""What the join needs of a recording: half of most recordings is steps of engines that no request is measured by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvscope.model.engines import gather_engines
from kvscope.model.events import Process, picked, stacked
from kvscope.probe.vocabulary import MOMENT_CODE

_STEP, _LOAD, _CHUNK = (MOMENT_CODE[name] for name in ("step", "load", "chunk"))


class Needed:
    """Takes parts in the order of time. Steps cut gaps out of prompts that are computed in chunks, and are nothing to
    engines that compute none: they are put by, for as long as the join would keep them, until one begins to."""

    def __init__(self, processes: Sequence[Process], keep_ns: int) -> None:
        self._keep_ns = keep_ns
        self._engine = gather_engines(tuple(processes)).of_process
        self._chunking = np.zeros(int(self._engine.max(initial=-1)) + 1, bool)
        self._steps: list[tuple[int, np.ndarray]] = []
        """(when its part ended, rows of dtype EVENT)"""

    def of(self, rows: np.ndarray, begin: int, end: int) -> np.ndarray:
        """Of the rows (dtype EVENT) of (begin, end] what the join needs now, with what was put by and is needed now."""
        moment, engine = np.ascontiguousarray(rows["moment"]), self._engine[rows["process"]]
        before = self._chunking.copy()
        self._chunking[engine[moment == _CHUNK]] = True
        self._steps = [(ended, steps) for ended, steps in self._steps if ended >= begin - self._keep_ns]
        released = self._released(self._chunking & ~before)
        of_engine = rows["request"] == 0
        step = (moment == _STEP) & of_engine & ~self._chunking[engine]
        wanted = ~step & ((moment != _LOAD) | ~of_engine)
        wanted[_last(rows["process"], len(self._engine))] = True  # how far each clock has come
        step &= ~wanted
        if step.any():
            self._steps.append((end, picked(rows, step)))
        found = picked(rows, wanted)
        return stacked([*released, found]) if released else found

    def _released(self, begun: np.ndarray) -> list[np.ndarray]:
        """What was put by of the engines, (engines,) bool."""
        found = []
        for place, (ended, steps) in enumerate(self._steps if begun.any() else []):
            mine = begun[self._engine[steps["process"]]]
            found.append(picked(steps, mine))
            self._steps[place] = ended, picked(steps, ~mine)
        return found


def _last(process: np.ndarray, processes: int) -> np.ndarray:
    """Where the last row of each process is."""
    at = np.full(processes, -1)
    at[process] = np.arange(len(process))
    return at[at >= 0]

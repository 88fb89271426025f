"""What engines stamped of themselves lately, batch by batch: of a minute's steps a look needs the last seconds'."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kvscope.model.events import EVENT, picked, stacked
from kvscope.model.membership import among
from kvscope.probe.vocabulary import MOMENT_CODE

_STEP = MOMENT_CODE["step"]
_MEETINGS = (MOMENT_CODE["handshake_begun"], MOMENT_CODE["handshake_ended"])


@dataclass(frozen=True)
class _Batch:
    """Rows that came together."""

    rows: np.ndarray
    last: int
    """ns: the latest of their times"""
    stamped: int
    """ns of stream time: when the latest was stamped"""


class Recent:
    """Steps and handshakes. A batch is let go when the last of it is too old."""

    def __init__(self) -> None:
        self._steps: list[_Batch] = []
        self._meetings: list[_Batch] = []

    def __len__(self) -> int:
        """Rows."""
        return sum(len(batch.rows) for batch in (*self._steps, *self._meetings))

    def add(self, rows: np.ndarray, stamped: np.ndarray) -> None:
        """What is a step or a handshake of these rows (dtype EVENT); stamped: (n,) ns of stream time of each."""
        for held, moments in ((self._steps, (_STEP,)), (self._meetings, _MEETINGS)):
            at = np.flatnonzero(among(rows["moment"], *moments))
            if len(at):
                its = picked(rows, at)
                held.append(_Batch(its, int(its["t"].max()), int(stamped[at].max())))

    def forget(self, before: int) -> None:
        """Let go of batches that were stamped before, ns of stream time."""
        for held in (self._steps, self._meetings):
            if any(batch.stamped < before for batch in held):
                held[:] = [batch for batch in held if batch.stamped >= before]

    def let_steps_go(self, before: int, most: int) -> None:
        """Those of batches that were stamped before, ns of stream time; and beyond some `most` the oldest batches."""
        newest_first = sorted(self._steps, key=lambda batch: -batch.stamped)
        sizes = np.cumsum([0, *(len(batch.rows) for batch in newest_first)]).tolist()
        self._steps = [
            batch for batch, newer in zip(newest_first, sizes, strict=False) if batch.stamped >= before and newer < most
        ]

    def meetings(self) -> np.ndarray:
        """All handshakes."""
        return stacked([np.empty(0, EVENT), *(batch.rows for batch in self._meetings)])

    def steps(self, since: int, of_process: np.ndarray) -> np.ndarray:
        """Steps from `since` on, ns; of_process: (processes,) bool, those whose are wanted."""
        return stacked([np.empty(0, EVENT), *self._wanted(since, of_process)])

    def _wanted(self, since: int, of_process: np.ndarray) -> Iterator[np.ndarray]:
        for batch in self._steps:
            if batch.last >= since:
                yield picked(batch.rows, (batch.rows["t"] >= since) & of_process[batch.rows["process"]])

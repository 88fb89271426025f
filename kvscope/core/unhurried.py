"""The stream where nobody waits for an answer: a recording that is gone through to its end.

What is plainly over is solved many events at a time and given out. All else is held to the end and solved side by side,
as in a recording that is read whole: there is nothing to be told of it earlier. Only where that comes to more events
than may be held are silent requests given out as a stream gives them out.
"""

from __future__ import annotations

import numpy as np

from kvscope.core.critical_path import Solution
from kvscope.core.stream import SECOND, Limits, Stream
from kvscope.model.events import Events
from kvscope.model.membership import among
from kvscope.model.requests import Tally
from kvscope.model.splits import Splits
from kvscope.probe.vocabulary import MOMENT_CODE, UNKNOWN

BATCH = 500_000
"""Events that come together before any are solved, at least."""
PATIENT = Limits(
    settle_ns=5 * SECOND,
    sweep_ns=60 * SECOND,
    linger_ns=600 * SECOND,
    give_up_ns=3600 * SECOND,
    history_ns=2**62,
    max_rows=1_500_000,
)
STEPS = 500_000
"""Steps that are kept for what is held, or few more."""
_COMPUTING = tuple(MOMENT_CODE[name] for name in ("scheduled", "chunk", "resumed"))


class Unhurried(Stream):
    """Gives out what `split` gives of all together, to the nanosecond. It takes over the events it is fed."""

    def __init__(self, limits: Limits = PATIENT, batch: int = BATCH) -> None:
        super().__init__(limits)
        self._batch = self._bound = batch
        self._refused = 0

    def _due(self, events: Events, now: int = UNKNOWN) -> bool:
        """By number alone. What was left is solved again each time: by then as much again has come."""
        super()._due(events, now)
        self._swept = self._clocks.passed
        return self.held >= self._bound

    def _take(self, events: Events) -> np.ndarray:
        """As `Stream` has it, of events that can be and that nobody else has: nothing is looked at twice, or copied."""
        where = np.array([self._process(process) for process in events.processes], np.uint32)
        rows = events.rows
        if not np.array_equal(where, np.arange(len(where))):
            rows["process"] = where[rows["process"]]
        self._texts.update(events.texts)
        self._new.append(rows)
        return rows

    def feed(self, events: Events, now: int = UNKNOWN) -> list[Splits]:
        """As `Stream` has it."""
        if not self._due(events, now):
            return []
        given = self._turn(looking=False)[0]
        self._let_steps_go()
        self._bound = max(self._batch, 2 * self.held)
        return given

    def _let_steps_go(self) -> None:
        """Those that ended before anything that is held was computed."""
        held = self._held.rows
        computing = self._clocks.age(held[among(held["moment"], *_COMPUTING)])
        oldest = int(computing.max(initial=0))
        self._recent.let_steps_go(self._clocks.passed - oldest, STEPS)

    def _settled(self, solution: Solution, closed: np.ndarray) -> np.ndarray:
        """(n,) Of those that a stream takes to be over, the ones to which nothing is left that could say otherwise."""
        return np.asarray(super()._settled(solution, closed) & solution.splits.timed & ~solution.joined.stale)

    def _solve(self, rows: np.ndarray) -> Solution:
        solution = super()._solve(rows)
        self._refused = solution.joined.tally.ambiguous
        return solution

    def close(self) -> list[Splits]:
        """As `Stream` has it. Of joins, those are counted as refused that are so in the end."""
        self._refused = 0
        given = super().close()
        self._count(Tally(ambiguous=self._refused))
        return given

"""Requests that wait for something now: for what, where, how long, how long that usually takes, and what comes then."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvscope.live.enginedata import Data, states_of
from kvscope.live.habits import Habits
from kvscope.live.naming import natural
from kvscope.live.seats import seats_of
from kvscope.live.snapshot import Snapshot
from kvscope.live.waits import RATIO, Next, Waiting, gather_waiting
from kvscope.model.graph import NODE

MANY = 4
"""So many that wait for the same on the same engine are one line."""
MOST = 50
"""Lines of what is overdue."""
_HELD, _QUEUED = NODE["D.held"], NODE["D.queued"]


@dataclass(frozen=True)
class Wait:
    """One request, or many alike."""

    count: int
    key: tuple[int, int]
    """(request, peer request) of the one that has waited longest"""
    request: str
    """its id"""
    next: Next
    engine: str
    """where that happens; empty for the router, and where it is not known"""
    data: Data | None
    """the state of that engine's data"""
    since: int
    """ns: the last moment of the one that has waited longest, on the side that waits"""
    longest_ns: int
    shortest_ns: int
    held: int
    """of them, refused admission at least once"""
    overdue: float
    """of the longest: how many times longer than usual, short waits not counted"""

    @property
    def ratio(self) -> float | None:
        """How many times longer than usual the longest has waited; None where that is not known."""
        usual = self.next.habit.usual_ns
        return self.longest_ns / usual if usual else None


@dataclass(frozen=True)
class Stuck:
    """All that is under way."""

    late: int
    """requests that wait longer than usual"""
    overdue: tuple[Wait, ...]
    """of them MOST lines, the most overdue first"""
    in_time: tuple[Wait, ...]
    """the others, in the order of the path"""
    unseen: int
    """others, of which what comes next happens where nothing is recorded"""
    under_way: int
    judged_by: int
    """requests that show what is usual"""


def gather_stuck(snapshot: Snapshot) -> Stuck:
    """Look at what is under way now."""
    learnt = Habits(snapshot.window)
    told = [process.started["mode"] for process in snapshot.processes if "mode" in process.started]
    waiting = gather_waiting(snapshot.window, learnt, max(told, key=told.count, default=""))
    lines = _Lines(snapshot, waiting)
    late = waiting.overdue >= RATIO
    overdue = lines.of(np.flatnonzero(late), MANY, MOST)
    in_time = lines.of(np.flatnonzero(~late), 1, len(waiting.rows))
    return Stuck(
        late=int(late.sum()),
        overdue=tuple(overdue),
        in_time=tuple(
            sorted(in_time, key=lambda wait: (wait.next.habit.to, wait.next.habit.frm, natural(wait.engine)))
        ),
        unseen=waiting.unseen,
        under_way=len(waiting.rows) + waiting.unseen,
        judged_by=len(learnt),
    )


class _Lines:
    """Puts together what is alike: what is waited for, and where."""

    def __init__(self, snapshot: Snapshot, waiting: Waiting) -> None:
        self._window, self._waiting = snapshot.window, waiting
        self._seats = seats_of(snapshot)
        self._states = states_of(snapshot, self._seats)
        self._engine = self._engines()
        alike: dict[tuple[int, int, str], int] = {}
        codes = [alike.setdefault((k.habit.frm, k.habit.to, k.leg), len(alike)) for k in waiting.kinds]
        self._alike = np.array(codes, int)[waiting.next] * (len(self._seats) + 1) + self._engine + 1

    def _engines(self) -> np.ndarray:
        """(n,) index of where what is waited for happens, -1 not known"""
        legs = np.array([kind.leg for kind in self._waiting.kinds], object)[self._waiting.next]
        rows = self._waiting.rows
        on = self._seats.on
        return np.where(legs == "prefill", on["prefill"][rows], np.where(legs == "decode", on["decode"][rows], -1))

    def of(self, chosen: np.ndarray, many: int, most: int) -> list[Wait]:
        """Lines of some of those that wait, fewer than `many` alike apart; the most overdue `most` of them."""
        _, group, counts = np.unique(self._alike[chosen], return_inverse=True, return_counts=True)
        group = np.where(counts[group] < many, len(counts) + np.arange(len(chosen)), group)
        order = np.lexsort((-self._waiting.ns[chosen], group))
        begins = np.flatnonzero(np.diff(group[order], prepend=-1))
        groups = np.split(chosen[order], begins[1:]) if len(chosen) else []
        groups.sort(key=lambda mine: (-self._waiting.overdue[mine[0]], -self._waiting.ns[mine[0]], mine[0]))
        return [self._line(mine) for mine in groups[:most]]

    def _line(self, mine: np.ndarray) -> Wait:
        """mine: those that are alike, the longest wait first"""
        window, waiting, longest = self._window, self._waiting, int(mine[0])
        row, kind, engine = int(waiting.rows[longest]), waiting.kinds[waiting.next[longest]], int(self._engine[longest])
        rows = waiting.rows[mine]
        held = window.time[rows, _HELD] >= np.maximum(window.time[rows, _QUEUED], 0)
        return Wait(
            count=len(mine),
            key=(int(window.request[row]), int(window.peer_request[row])),
            request=window.text(row),
            next=kind,
            engine=self._seats.engines[engine].engine if engine >= 0 else "",
            data=self._states[engine] if engine >= 0 else None,
            since=window.now - int(waiting.ns[longest]),
            longest_ns=int(waiting.ns[longest]),
            shortest_ns=int(waiting.ns[mine[-1]]),
            held=int(held.sum()) if kind.habit.frm == _QUEUED else 0,
            overdue=float(waiting.overdue[longest]),
        )

"""What each request under way waits for: what comes next on either side, and of that the most overdue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kvscope.live.habits import Habit, Habits
from kvscope.model import graph
from kvscope.model.graph import NODE, NODES, ORIGIN
from kvscope.model.requests import State
from kvscope.model.splits import Splits
from kvscope.probe.vocabulary import UNKNOWN

LEAST_NS = 10_000_000
"""A wait this short is nobody's trouble, however short it usually is."""
PATIENCE_NS = 1_000_000_000
"""Taken for what is usual where nothing shows it."""
RATIO = 3.0
"""A wait is overdue if it is so many times longer than usual."""
CLEARLY = 2.0
"""Decode's part is what is waited for if it is overdue by so many times more than prefill's: it runs beside it."""

PUSH_ONLY = graph.names(
    "P.handed", "staged", "D.handed", "registration_sent", "registration_received", "matched", "notified"
)
_STAGED, _RECEIVED, _ARRIVED, _COMPUTED = (
    NODE[name] for name in ("staged", "registration_received", "D.arrived", "P.computed")
)


@dataclass(frozen=True)
class Course:
    """The nodes of a handoff, by what has to be done before what."""

    prefill: tuple[int, ...]
    """until prefill's part of the arrangement is done"""
    decode: tuple[int, ...]
    """until decode's is"""
    joint: tuple[int, ...]
    """what comes after both"""


def _course(prefill: tuple[int, ...], decode: tuple[int, ...], joint: tuple[int, ...]) -> Course:
    return Course(prefill, decode, tuple(sorted({*joint, *graph.DECODE, *graph.RECOMPUTE})))


_FRONT = (*graph.DECODE_FRONT, NODE["D.reserved"])
COURSES = {
    "push": _course(graph.PREFILL + graph.STAGING, (*graph.DECODE_FRONT, *graph.REGISTRATION), graph.WRITE),
    "pull": _course(graph.PREFILL, _FRONT, tuple(node for node in graph.READ if node != NODE["D.reserved"])),
}


@dataclass(frozen=True)
class Next:
    """What comes next for some requests, where, and what after that."""

    habit: Habit
    leg: str
    """prefill, decode or router"""
    then: int
    """node; -1 none"""


@dataclass(frozen=True)
class Waiting:
    """n requests under way, each with the wait that is the most overdue of its own."""

    rows: np.ndarray
    """(n,) of the window"""
    next: np.ndarray
    """(n,) index into `kinds`"""
    ns: np.ndarray
    """(n,) since its last moment on that side"""
    overdue: np.ndarray
    """(n,) f8: how many times longer than usual, short waits not counted"""
    kinds: tuple[Next, ...]
    unseen: int
    """others under way, of which what comes next happens where nothing is recorded"""


Found = Iterator[tuple[np.ndarray, Next]]
"""(rows of the window, what they wait for); a request may be in several."""


def gather_waiting(window: Splits, learnt: Habits, mode: str = "") -> Waiting:
    """Judge the unfinished requests of a window by what those that got on usually do. mode: `push` or `pull`, as
    engines told; taken where nothing shows it."""
    rows = np.flatnonzero(window.in_state(State.UNFINISHED))
    pull = _pulls(window, rows, learnt.mode or mode)
    found: list[tuple[np.ndarray, Next]] = []
    for course, mine in ((COURSES["push"], rows[~pull]), (COURSES["pull"], rows[pull])):
        found += _Walker(window, mine, course, learnt).found() if len(mine) else ()
    return _worst(window, rows, found)


def _pulls(window: Splits, rows: np.ndarray, usual: str) -> np.ndarray:
    """(rows,) bool: as its own moments show, else as most do"""
    pull = window.shaped("pull", "return_read")[rows]
    push = (window.time[rows][:, list(PUSH_ONLY)] != UNKNOWN).any(axis=1)
    return np.asarray(pull | (~push & (usual == "pull")))


class _Walker:
    """Finds where requests of one course stand."""

    def __init__(self, window: Splits, rows: np.ndarray, course: Course, learnt: Habits) -> None:
        self._rows, self._course, self._learnt = rows, course, learnt
        self._seen = window.time[rows, : len(NODES)] != UNKNOWN

    def found(self) -> Found:
        """What each waits for, on either side."""
        course = self._course
        joint, prefill, decode = (self._last(nodes) for nodes in (course.joint, course.prefill, course.decode))
        apart = joint < 0
        yield from self._each(joint, ~apart, course.joint)
        yield from self._each(prefill, apart, course.prefill)
        # A registration that was received waits for prefill's own part, unless that is done or not seen at all.
        behind = (decode == _RECEIVED) & (prefill >= 0) & (prefill != _STAGED)
        yield from self._each(decode, apart & ~behind, course.decode + course.joint)
        yield from self._uncalled(apart & (decode < 0))

    def _last(self, nodes: tuple[int, ...]) -> np.ndarray:
        """(rows,) the last of the nodes that was seen, -1 where none was"""
        backwards = np.array(nodes[::-1])
        there = self._seen[:, backwards]
        return np.where(there.any(axis=1), backwards[there.argmax(axis=1)], -1)

    def _each(self, last: np.ndarray, chosen: np.ndarray, among: tuple[int, ...]) -> Found:
        for node in np.unique(last[chosen & (last >= 0)]).tolist():
            habit = self._learnt.after(node, among)
            if habit is not None:
                yield self._rows[chosen & (last == node)], self._kind(habit)

    def _uncalled(self, chosen: np.ndarray) -> Found:
        """Requests of which decode knows nothing yet: it is called after prefill, or was to be called at once."""
        frm = ORIGIN if self._learnt.knew is False else _COMPUTED
        habit = self._learnt.after(frm, (_ARRIVED,))
        # Where requests got on without a decode leg that was seen, none is to be expected.
        if habit is not None and (habit.samples or not len(self._learnt)):
            yield self._rows[chosen & self._seen[:, frm]], self._kind(habit)

    def _kind(self, habit: Habit) -> Next:
        then = self._learnt.after(habit.to, self._course.prefill + self._course.decode + self._course.joint)
        return Next(habit, _leg(habit.to, self._course), -1 if then is None else then.to)


def _leg(node: int, course: Course) -> str:
    """Where a moment happens. A call is the router's, wherever it arrives."""
    name, leg = NODES[node].name, NODES[node].leg
    if name.endswith(".arrived"):
        return "router"
    if leg in ("poster", "none"):
        return "decode" if course is COURSES["pull"] and not name.startswith("P.") else "prefill"
    return leg


def _worst(window: Splits, rows: np.ndarray, found: list[tuple[np.ndarray, Next]]) -> Waiting:
    """Of each request's waits the most overdue."""
    place = np.full(len(window), -1)
    place[rows] = np.arange(len(rows))
    chosen, ns, overdue = np.full(len(rows), -1), np.zeros(len(rows), np.int64), np.full(len(rows), -1.0)
    for index, (waiting, kind) in enumerate(found):
        at, habit = place[waiting], kind.habit
        waited = np.maximum(window.now - window.behind[waiting] - window.time[waiting, habit.frm], 0)
        times = waited / max(PATIENCE_NS if habit.usual_ns is None else habit.usual_ns, LEAST_NS)
        worse = (overdue[at] < 0) | ((times >= RATIO) & (times > CLEARLY * overdue[at]))
        chosen[at[worse]], ns[at[worse]], overdue[at[worse]] = index, waited[worse], times[worse]
    known = chosen >= 0
    kinds = tuple(kind for _, kind in found)
    return Waiting(rows[known], chosen[known], ns[known], overdue[known], kinds, int((~known).sum()))

"""What usually follows a moment, and after how long: learnt from requests that got on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kvscope.model.graph import ALL_NODES, EDGES, NODE, NODES, STAGE_OF, UNATTRIBUTED
from kvscope.model.requests import State
from kvscope.model.shapes import SHAPE_CODE
from kvscope.model.splits import Splits

SAMPLE = 4_000
"""The latest so many requests are looked at: enough for a median."""
_PENDING = (NODE["pending_seen"], NODE["P.pending_seen"])
"""Polls that found nothing: what is waited for is the end of the transfer."""
_STAMPED = {NODE["transferred"]: NODE["done_seen"], NODE["P.transferred"]: NODE["P.done_seen"]}
"""Whose thread a computed node is on."""
_PUSH, _PULL = [SHAPE_CODE["push"]], [SHAPE_CODE["pull"], SHAPE_CODE["return_read"]]


@dataclass(frozen=True)
class Habit:
    """A moment, and the one that comes next. Nodes of the graph."""

    frm: int
    to: int
    usual_ns: float | None
    """median; None where no request shows it"""
    samples: int
    thread: int
    """code of the thread that mostly stamps the next; 0 not known"""

    @property
    def stage(self) -> int:
        """Index of what lies between."""
        return int(STAGE_OF[self.to, self.frm])


class Habits:
    """Of the requests of a window that got on: those that neither wait still nor failed nor were given up."""

    def __init__(self, window: Splits) -> None:
        done = np.flatnonzero(~window.in_state(State.UNFINISHED) & ~window.shaped("failed", "aborted"))
        latest = done[np.argsort(window.last_moment[done, 2], kind="stable")[-SAMPLE:]]
        self._time, self._thread = window.time[latest], window.thread[latest]
        self._shape, self._knew = window.shape[latest], window.knew[latest]
        self._walks = window.walks[latest]
        self._walks[:, :, list(_PENDING)] = False

    def __len__(self) -> int:
        return len(self._time)

    def after(self, frm: int, among: Iterable[int]) -> Habit | None:
        """What comes after a node, among some; where no request came by there, what the graph says.

        None: nothing does, or nothing that is seen here.
        """
        allowed = np.zeros(len(NODES), bool)
        allowed[list(among)] = True
        allowed &= STAGE_OF[:, frm] != UNATTRIBUTED
        allowed[: frm + 1] = False
        rows, to = self._successors(frm, allowed)
        if not len(rows):
            return None if self._walks[:, :, frm].any() else _by_graph(frm, allowed)
        usual = int(np.bincount(to).argmax())
        mine = rows[to == usual]
        waited = np.maximum(self._time[mine, usual] - self._time[mine, frm], 0)
        threads = np.bincount(self._thread[mine, _STAMPED.get(usual, usual)])
        return Habit(frm, usual, float(np.median(waited)), len(mine), int(threads.argmax()))

    @property
    def knew(self) -> bool | None:
        """Whether decode is mostly called after prefill's end; None where no request shows it."""
        told = self._knew[self._knew >= 0]
        return bool(told.mean() > 0.5) if len(told) else None

    @property
    def mode(self) -> str:
        """`push` or `pull`, as most of them; empty where none handed blocks over."""
        push, pull = (int(np.isin(self._shape, codes).sum()) for codes in (_PUSH, _PULL))
        return "" if not push + pull else "pull" if pull > push else "push"

    def _successors(self, frm: int, allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(rows, the node that follows in each), over all walks that lead through `frm` and on to an allowed node."""
        row, walk = np.nonzero(self._walks[:, :, frm])
        rest = self._walks[row, walk, frm:]
        rest[:, 0] = False
        to = np.where(rest.any(axis=1), frm + rest.argmax(axis=1), frm)
        kept = allowed[to]
        return row[kept], to[kept]


def _by_graph(frm: int, allowed: np.ndarray) -> Habit | None:
    for edge in EDGES:
        to = NODE[edge.to]
        if NODE[edge.frm] == frm and allowed[to] and to not in _PENDING:
            return Habit(frm, to, None, 0, 0)
    return None


def moment_name(node: int) -> str:
    """What a node is called: its moment, or its own name where it is computed."""
    return ALL_NODES[node].moment or ALL_NODES[node].name

"""Hosts side by side: each has a clock of its own, and what happened at one time has to be met at one time.

The axis is the clock of the first host that is named; the times in events stay as they were stamped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kvscope.model.events import Events, Process, stacked
from kvscope.sources.bytime import ByTime, together
from kvscope.sources.past import Past


def side_by_side(past: Past) -> Past:
    """The same, or, where several hosts recorded, on one axis."""
    shift = shifts(past.processes, np.concatenate([source.reaches for source in past.sources]))
    return SideBySide(past, shift) if shift.any() else past


def shifts(processes: Sequence[Process], reaches: np.ndarray) -> np.ndarray:
    """(processes,) ns to add to the times of each. reaches: (processes, 2) its first event and its last.

    By the time of day, where every host tells it. Else hosts whose times have nothing in common are taken to have
    begun together.
    """
    hosts = list(dict.fromkeys(process.host for process in processes if process.host))
    lanes = {host: np.array([process.host == host for process in processes]) for host in hosts}
    if len(hosts) < 2:
        return np.zeros(len(processes), np.int64)
    walls = [_wall(processes, which) for which in lanes.values()]
    found = np.zeros(len(processes), np.int64)
    first, last = _ends(reaches, lanes[hosts[0]])
    for wall, which in zip(walls, lanes.values(), strict=True):
        begun, ended = _ends(reaches, which)
        if None not in walls and walls[0] is not None and wall is not None:
            found[which] = wall - walls[0]
        elif begun > last or ended < first:
            found[which] = first - begun
    return found


def _wall(processes: Sequence[Process], which: np.ndarray) -> int | None:
    told = [process.wall_ns for process, here in zip(processes, which, strict=True) if here]
    return next((wall for wall in told if wall is not None), None)


def _ends(reaches: np.ndarray, which: np.ndarray) -> tuple[int, int]:
    return int(reaches[which, 0].min()), int(reaches[which, 1].max())


@dataclass(frozen=True)
class _Lane:
    """What has one shift in a source."""

    shift: int
    which: np.ndarray
    """(processes of the source,) bool"""


class SideBySide(Past):
    """On the axis that all hosts share."""

    def __init__(self, past: Past, shift: np.ndarray) -> None:
        """shift: (processes,) ns to add to the times of each."""
        super().__init__(past.sources, past.told)
        self._shift = shift
        edges = np.cumsum([len(source.processes) for source in past.sources])[:-1]
        self._lanes = [_lanes(part) for part in np.split(shift, edges)]
        reaches = np.concatenate([source.reaches for source in past.sources]) + shift[:, None]
        known = np.concatenate([source.reaches[:, 1] >= source.reaches[:, 0] for source in past.sources])
        self.begin, self.end = int(reaches[known, 0].min()), int(reaches[known, 1].max())

    def when(self, rows: np.ndarray) -> np.ndarray:
        """As `Past` has it."""
        return np.asarray(rows["t"] + self._shift[rows["process"]])

    def whole(self, after: int, until: int) -> Events:
        """As `Past` has it."""
        found = zip(self.sources, self._lanes, strict=True)
        return together([_whole(source, lanes, after, until) for source, lanes in found])

    def _pieces(self, after: int, until: int) -> np.ndarray:
        found = []
        for source, lanes in zip(self.sources, self._lanes, strict=True):
            for lane in lanes:
                pieces = source.pieces(after - lane.shift, until - lane.shift)
                pieces["first"] += lane.shift
                pieces["last"] += lane.shift
                found.append(pieces)
        return np.concatenate(found)


def _lanes(shift: np.ndarray) -> list[_Lane]:
    return [_Lane(each, shift == each) for each in np.unique(shift).tolist()]


def _whole(source: ByTime, lanes: list[_Lane], after: int, until: int) -> Events:
    parts = [source.whole(after - lane.shift, until - lane.shift, lane.which) for lane in lanes]
    texts = {key: text for part in parts for key, text in part.texts.items()}
    return replace(parts[0], rows=stacked([part.rows for part in parts]), texts=texts)

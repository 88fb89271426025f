"""The time of day of a host's moments, as its own clocks told it while it recorded."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from kvscope.model.events import Events
from kvscope.probe.vocabulary import MOMENT_CODE, UNKNOWN, VALUES

_ARRIVED = MOMENT_CODE["arrived"]
_WALL = VALUES["arrived"].index("wall_ns")
_Told = TypeVar("_Told")
EVERY = 1_000_000_000
"""ns between two readings that are kept of a host."""


@dataclass
class _Readings:
    """What to add to a host's moments to get the time of day, from when on."""

    since: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)

    def add(self, t: int, offset: int) -> None:
        """A reading at t; of several within EVERY, the first is kept."""
        at = bisect_right(self.since, t)
        if any(abs(t - near) < EVERY for near in self.since[max(0, at - 1) : at + 1]):
            return
        self.since.insert(at, t)
        self.offsets.insert(at, offset)

    def at(self, t: int) -> int:
        """The reading at t, else the one before, else the first."""
        return self.offsets[max(0, bisect_right(self.since, t) - 1)]

    def moment(self, wall: int) -> int:
        """What t it was at a time of day, by the reading at that t; where the clock was set, by one beside it."""
        t = wall - self.offsets[0]
        return wall - self.at(wall - self.at(t))


class WallClock:
    """Takes events as they come. Each arrival at an API server carries a reading of both clocks; where there is none,
    the pair counts that the process took when it began."""

    def __init__(self) -> None:
        self._hosts: dict[str, _Readings] = {}
        self._begun: dict[str, int] = {}

    def take(self, events: Events) -> None:
        """Note the readings in it."""
        for process in events.processes:
            if process.wall_ns is not None:
                self._begun.setdefault(process.host, process.wall_ns)
        rows = events.rows
        arrived = rows[np.flatnonzero(rows["moment"] == _ARRIVED)]
        arrived = _first_of_each(arrived[arrived["values"][:, _WALL] != UNKNOWN])
        hosts = [process.host for process in events.processes]
        told = zip(
            arrived["process"].tolist(), arrived["t"].tolist(), arrived["values"][:, _WALL].tolist(), strict=True
        )
        for process, t, wall in told:
            self._hosts.setdefault(hosts[process], _Readings()).add(t, wall - t)

    def offset(self, host: str, t: int) -> int | None:
        """What to add to t (ns) of a host's clock to get ns since 1970; None: nobody told. A host that is not named is
        taken to be the only one there is."""
        readings = self._readings(host)
        return readings.at(t) if readings else self._at_begin(host)

    def moment(self, host: str, wall: int) -> int | None:
        """The other way round: what it was by a host's clock, ns, at a time of day."""
        readings, begun = self._readings(host), self._at_begin(host)
        return readings.moment(wall) if readings else None if begun is None else wall - begun

    def _readings(self, host: str) -> _Readings | None:
        return self._hosts.get(host) or (None if host else _only(self._hosts))

    def _at_begin(self, host: str) -> int | None:
        begun = self._begun.get(host)
        return _only(self._begun) if begun is None and not host else begun


def _first_of_each(rows: np.ndarray) -> np.ndarray:
    """Of rows (dtype EVENT), by time, the first of each process in each stretch of EVERY: no other would be kept."""
    rows = rows[np.argsort(rows["t"], kind="stable")]
    stretch = np.stack((rows["process"].astype(np.int64), rows["t"] // EVERY), axis=1)
    return rows[np.sort(np.unique(stretch, axis=0, return_index=True)[1])]


def _only(told: dict[str, _Told]) -> _Told | None:
    return next(iter(told.values())) if len(told) == 1 else None

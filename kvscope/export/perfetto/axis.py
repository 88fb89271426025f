"""One axis for the times of all processes: the monotonic clock of one host.

Clocks of other hosts are not aligned with it. They are laid beside it by the time of day that each host told, so that
what happened at about the same time can be looked at together; nothing may be measured between two hosts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvscope.model.events import Process


class Axis:
    """The reference is the first host that is told."""

    def __init__(self) -> None:
        self._walls: dict[str, int | None] = {}
        self._floor: int | None = None

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts seen, the reference first."""
        return tuple(self._walls)

    @property
    def several(self) -> bool:
        """More than one host: times of two of them do not compare."""
        return len(self._walls) > 1

    @property
    def floor(self) -> int:
        """What was added to every time, ns: none may be negative."""
        return self._floor or 0

    @property
    def wall_ns(self) -> int | None:
        """What to add to a time on the axis to get the time of day of the reference, ns since 1970."""
        told = next(iter(self._walls.values()), None)
        return None if told is None else told - self.floor

    def shifts(self, processes: Sequence[Process], first: int) -> np.ndarray:
        """(processes,) i8 ns to add to the times of each; `first`: the earliest time of all, ns."""
        if self._floor is None:
            self._floor = max(0, -first)
        for process in processes:
            if process.host and self._walls.get(process.host) is None:
                self._walls[process.host] = process.wall_ns
        return np.array([self._shift(process.host) for process in processes], np.int64)

    def _shift(self, host: str) -> int:
        reference, wall = next(iter(self._walls.values()), None), self._walls.get(host)
        return self.floor if reference is None or wall is None else self.floor + wall - reference

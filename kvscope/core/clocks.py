"""Hosts and their clocks. Nothing aligns them, so that instants of one host compare and those of two do not.

What does not tell its host is taken to be where the others are, as long as those are one host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kvscope.model.events import Process
from kvscope.probe.vocabulary import UNKNOWN

UNTOLD = -1


def hosts_of(processes: Sequence[Process]) -> np.ndarray:
    """(processes,) i8 number of the host that each runs on, UNTOLD where it did not say."""
    number = {host: index for index, host in enumerate(_told(processes))}
    return np.array([number.get(process.host, UNTOLD) for process in processes], np.int64)


def latest_of(processes: Sequence[Process], rows: np.ndarray) -> dict[str, int]:
    """host -> its latest event among rows (dtype EVENT), ns."""
    latest = np.full(len(processes), UNKNOWN)
    # Side by side, and an index of the machine's own: else each is converted alone, at ten times the cost.
    np.maximum.at(latest, rows["process"].astype(np.intp), np.ascontiguousarray(rows["t"]))
    found: dict[str, int] = {}
    for process, t in zip(processes, latest.tolist(), strict=True):
        if t != UNKNOWN:
            found[process.host] = max(t, found.get(process.host, t))
    return found


def lags(processes: Sequence[Process], rows: np.ndarray) -> np.ndarray:
    """As `lags_by`, of rows (dtype EVENT)."""
    several = len(_told(processes)) > 1
    return lags_by(processes, latest_of(processes, rows) if several else {})


def lags_by(processes: Sequence[Process], latest: Mapping[str, int]) -> np.ndarray:
    """(processes,) ns that the clock of each lies behind the one furthest ahead, by the latest event of each host.

    Good for ages alone: by them a request is as old as it is on its own host.
    """
    if len({*_told(processes), *latest} - {""}) < 2:
        return np.zeros(len(processes), np.int64)
    ahead = max(latest.values(), default=0)
    return np.array([ahead - latest.get(process.host, ahead) for process in processes], np.int64)


class Clocks:
    """The clocks of events that keep coming: each host's moves by its own, `now` by whichever is ahead of all."""

    def __init__(self) -> None:
        self.now = UNKNOWN
        """The latest event seen, ns."""
        self.passed = 0
        """Of event time since the first batch, ns, by the clock that moved most."""
        self._latest: dict[str, int] = {}
        self.lag = np.empty(0, np.int64)
        """(processes,) as of `lags_by`"""

    def move(self, processes: Sequence[Process], rows: np.ndarray, now: int = UNKNOWN, here: str = "") -> None:
        """Take a batch (dtype EVENT) into account; `now`: the clock that is ahead, where it runs on without events;
        `here`: the host whose clock that is, where it may be none of the events'."""
        latest = latest_of(processes, rows)
        if here and now != UNKNOWN:
            latest[here] = max(now, latest.get(here, now))
        moved = [t - self._latest[host] for host, t in latest.items() if host in self._latest]
        self._latest |= {host: max(t, self._latest.get(host, t)) for host, t in latest.items()}
        before, self.now = self.now, max(self.now, now, *latest.values())
        if before != UNKNOWN:
            self.passed += max([self.now - before, *moved])
        self.lag = lags_by(processes, self._latest)

    def age(self, rows: np.ndarray) -> np.ndarray:
        """(n,) ns since each row, by its own host's clock."""
        age = self.now - rows["t"]
        return np.asarray(age - self.lag[rows["process"]] if self.lag.any() else age)


def _told(processes: Sequence[Process]) -> list[str]:
    return sorted({process.host for process in processes} - {""})

"""How far what is said of an engine can be relied on: whether it tells everything, something, nothing, or no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import numpy as np

from kvscope.live.enginefigures import Load, latest_loads
from kvscope.live.feed import Flow
from kvscope.live.seats import Seats
from kvscope.live.snapshot import Snapshot
from kvscope.model.events import Process
from kvscope.model.requests import State
from kvscope.probe.vocabulary import UNKNOWN

GONE_NS = 5_000_000_000
"""An engine that has work and is silent for so long while others are not is gone."""


class Data(StrEnum):
    """The state of an engine's data."""

    INSTRUMENTED = "instrumented"
    PARTLY = "partly"
    """some of its processes or functions give no moments"""
    DARK = "dark"
    """not instrumented: it is only known to be there"""
    GONE = "gone"
    """no event for a while, though it had work and others go on"""
    OFF = "off"
    """switched off: it serves, and what it serves is not seen"""
    ENDED = "ended"
    """none of its processes runs any more"""


def states_of(snapshot: Snapshot, seats: Seats, loads: Mapping[int, Load] | None = None) -> list[Data]:
    """One per engine. loads: engine -> what it said last, where that was gathered already"""
    loads = latest_loads(snapshot.scoped, seats) if loads is None else loads
    live = snapshot.flow is Flow.LIVE  # a recording tells how a process ended from its beginning on
    asked = _asked(snapshot, seats)
    silent = _silent_beside_others(snapshot.now, seats.heard)
    return [
        (_ending(members) if live else None) or _state(members, silent[index] and _busy(loads.get(index), asked[index]))
        for index, members in enumerate(seats.members)
    ]


def reasons_of(members: Sequence[Process], started: Mapping[str, Any]) -> tuple[str, ...]:
    """Why an engine's data lack something, as its processes told."""
    reasons = dict.fromkeys(process.note for process in members if process.note)
    missing = started.get("missing_functions")
    if isinstance(missing, list) and missing:
        reasons[f"no moments from {', '.join(map(str, missing))}"] = None
    return tuple(reasons)


def told_by(members: Sequence[Process]) -> dict[str, Any]:
    """What the processes of one engine said at their start."""
    return {name: value for process in members for name, value in process.started.items()}


def _ending(members: Sequence[Process]) -> Data | None:
    """Whether it ended or was switched off."""
    running = [process for process in members if not process.ended]
    if not running:
        return Data.ENDED
    return Data.OFF if any(process.off for process in running) else None


def _state(members: Sequence[Process], gone: bool) -> Data:
    if all(process.note for process in members):
        return Data.DARK
    if gone:
        return Data.GONE
    return Data.PARTLY if reasons_of(members, told_by(members)) else Data.INSTRUMENTED


def _asked(snapshot: Snapshot, seats: Seats) -> np.ndarray:
    """(engines,) requests under way there"""
    open_ = snapshot.window.in_state(State.UNFINISHED)
    return np.asarray(seats.counts("prefill", open_) + seats.counts("decode", open_))


def _busy(load: Load | None, asked: int) -> bool:
    """Whether it should have something to say. One without work says nothing."""
    return asked > 0 if load is None else load.busy


def _silent_beside_others(now: int, heard: np.ndarray) -> list[bool]:
    """(engines,) heard once, and no more for GONE_NS, in which another one was"""
    latest = int(heard.max(initial=UNKNOWN))
    return [ns != UNKNOWN and now - ns >= GONE_NS and latest - ns >= GONE_NS for ns in heard.tolist()]

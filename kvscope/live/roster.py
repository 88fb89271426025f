"""Which engines there are, on which side of the handoff, and which of them are known and record nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kvscope.analysis.setup import is_router, label_of
from kvscope.live.enginedata import Data, states_of, told_by
from kvscope.live.enginefigures import Load
from kvscope.live.seats import LEGS, Seats
from kvscope.live.snapshot import Snapshot
from kvscope.model.requests import State

TOLD = {"kv_producer": "prefill", "kv_consumer": "decode"}
"""vLLM's role of a connector; `kv_both` says nothing of what the engine is used for."""


REMEMBERED_NS = 600_000_000_000
"""An engine that ended is spoken of for so long."""


@dataclass(frozen=True)
class Side:
    """The engines of one role."""

    engines: tuple[str, ...]
    """that record"""
    dark: tuple[str, ...]
    """not instrumented"""
    gone: tuple[str, ...]
    """silent although they had work"""
    off: tuple[str, ...]
    """switched off"""
    ended: tuple[str, ...]
    """that run no more, and did not long ago"""
    unseen: bool
    """requests were seen from the other side only, and no engine here is known to be dark"""

    @property
    def known(self) -> int:
        """Engines of the role, at least."""
        return sum(map(len, (self.engines, self.dark, self.gone, self.off, self.ended))) + self.unseen


@dataclass(frozen=True)
class Roster:
    """Who takes part."""

    prefill: Side
    decode: Side
    untold: Side
    """engines whose role nobody told and no request showed"""
    routers: int

    @property
    def sides(self) -> tuple[Side, ...]:
        """All of them."""
        return self.prefill, self.decode, self.untold

    @property
    def dark(self) -> tuple[str, ...]:
        """Engines that are not instrumented."""
        return tuple(name for side in self.sides for name in side.dark)

    @property
    def gone(self) -> tuple[str, ...]:
        """Engines that fell silent."""
        return tuple(name for side in self.sides for name in side.gone)

    @property
    def off(self) -> tuple[str, ...]:
        """Engines that were switched off."""
        return tuple(name for side in self.sides for name in side.off)

    @property
    def ended(self) -> tuple[str, ...]:
        """Engines that run no more."""
        return tuple(name for side in self.sides for name in side.ended)

    @property
    def recording(self) -> int:
        """Engines that record."""
        return sum(len(side.engines) for side in self.sides)


def gather_roster(snapshot: Snapshot, seats: Seats, loads: Mapping[int, Load]) -> Roster:
    """Roles are what engines told, else what the requests of the window show."""
    states, roles = states_of(snapshot, seats, loads), _roles(seats)
    names = [label_of(engine) for engine in seats.engines]
    routers = [is_router(engine) for engine in seats.engines]
    front = sum(routers)
    alone = _seen_alone(snapshot, seats)
    routers = [
        router or _long_gone(state, heard, snapshot.now)
        for router, state, heard in zip(routers, states, seats.heard.tolist(), strict=True)
    ]
    known = list(zip(names, states, roles, routers, strict=True))

    def side(role: str, other: str) -> Side:
        mine = [(name, state) for name, state, told, router in known if told == role and not router]
        return _side(mine, other in alone)

    return Roster(side("prefill", "decode"), side("decode", "prefill"), side("", ""), front)


def _side(mine: Sequence[tuple[str, Data]], unseen: bool) -> Side:
    """An engine that was started anew is one of its name, as good as its best start."""
    recording = {name for name, state in mine if state in (Data.INSTRUMENTED, Data.PARTLY)}
    dark = {name for name, state in mine if state is Data.DARK} - recording
    left = recording | dark
    found = {}
    for state in (Data.OFF, Data.GONE, Data.ENDED):
        found[state] = tuple(sorted({name for name, data in mine if data is state} - left))
        left.update(found[state])
    names = tuple(sorted(recording)), tuple(sorted(dark))
    return Side(*names, found[Data.GONE], found[Data.OFF], found[Data.ENDED], unseen and not dark)


def _long_gone(state: Data, heard: int, now: int) -> bool:
    """Rings of engines that ended long ago stay until somebody removes them: they take no part."""
    return state is Data.ENDED and now - heard > REMEMBERED_NS


def _roles(seats: Seats) -> list[str]:
    """One per engine; empty where it is not known."""
    everyone = np.ones(len(seats.on["prefill"]), bool)
    prefill, decode = (seats.counts(leg, everyone) for leg in LEGS)
    shown = np.select([prefill > decode, decode > 0], LEGS, "")
    told = [TOLD.get(str(told_by(members).get("role")), "") for members in seats.members]
    return [role or str(seen) for role, seen in zip(told, shown, strict=True)]


def _seen_alone(snapshot: Snapshot, seats: Seats) -> set[str]:
    """Sides from which alone requests were seen."""
    rows = snapshot.window.in_state(State.ONE_LEGGED)
    return {leg for leg in LEGS if seats.counts(leg, rows).any()}

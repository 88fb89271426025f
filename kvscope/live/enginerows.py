"""A row for each engine: what it is, how its data are, what it does now, what its requests went through there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kvscope.analysis.setup import is_router
from kvscope.live import enginefigures
from kvscope.live.enginedata import Data, reasons_of, states_of, told_by
from kvscope.live.enginefigures import Backlog, Load, Trouble
from kvscope.live.naming import natural
from kvscope.live.seats import LEGS, seats_of
from kvscope.live.snapshot import Snapshot
from kvscope.probe.vocabulary import UNKNOWN


@dataclass(frozen=True)
class EngineRow:
    """One start of one engine. None: not known. Times in ns."""

    name: str
    roles: tuple[str, ...]
    """legs that the window's requests had there: the role is the request's"""
    started: dict[str, Any]
    """what it told of itself"""
    data: Data
    reasons: tuple[str, ...]
    """why its data lack something, as it told"""
    silent: int | None
    """since its latest event; None: there was none"""
    lost: int
    load: Load | None
    idle_blocks: int | None
    """reserved and not yet transferred, now"""
    queue: dict[str, float]
    """leg -> p50 until prefill was scheduled, until decode was admitted; absent without requests"""
    step_p50: float | None
    step_p95: float | None
    connector_share: float | None
    backlog: Backlog | None
    """None: it pushes nothing"""
    wake_p95: float | None
    handshakes: int
    trouble: Trouble

    @property
    def kv_blocks(self) -> int | None:
        """Of its KV cache."""
        told = self.started.get("kv_blocks")
        return told if isinstance(told, int) else None

    @property
    def used_blocks(self) -> int | None:
        """KV blocks that are not free."""
        return None if self.load is None or self.kv_blocks is None else max(0, self.kv_blocks - self.load.free_blocks)


def engine_rows(snapshot: Snapshot) -> tuple[EngineRow, ...]:
    """In the order of their names. Earlier starts of an engine are left out once the window holds nothing of them."""
    rows = _rows(snapshot)
    shown = [row for row in rows if not _superseded(row, rows, snapshot.now - snapshot.begin)]
    return tuple(sorted(shown, key=lambda row: natural(row.name)))


def _rows(snapshot: Snapshot) -> list[EngineRow]:
    seats, window, events = seats_of(snapshot), snapshot.window, snapshot.scoped
    everyone = np.ones(len(window), bool)
    roles = {leg: seats.counts(leg, everyone) for leg in LEGS}
    queue = {leg: enginefigures.queued(window, seats, leg) for leg in LEGS}
    loads, backlogs = enginefigures.latest_loads(events, seats), enginefigures.backlogs(window, seats)
    idle, wake = enginefigures.idle_blocks(window, seats), enginefigures.writer_wake(window, seats)
    middle, slow, connector = enginefigures.step_figures(events, seats)
    meetings, troubles = enginefigures.handshakes(events, seats), enginefigures.troubles(window, seats)
    states = states_of(snapshot, seats, loads)
    return [
        EngineRow(
            name=engine.engine,
            roles=tuple(leg for leg in LEGS if roles[leg][index]),
            started=(started := told_by(seats.members[index])),
            data=states[index],
            reasons=reasons_of(seats.members[index], started),
            silent=None if seats.heard[index] == UNKNOWN else max(0, snapshot.now - int(seats.heard[index])),
            lost=sum(process.lost for process in seats.members[index]),
            load=loads.get(index),
            idle_blocks=None if np.isnan(idle[index]) else int(idle[index]),
            queue={leg: float(queue[leg][index]) for leg in LEGS if not np.isnan(queue[leg][index])},
            step_p50=_known(middle[index]),
            step_p95=_known(slow[index]),
            connector_share=_known(connector[index]),
            backlog=backlogs.get(index, Backlog(0, 0) if started.get("mode") == "push" else None),
            wake_p95=_known(wake[index]),
            handshakes=int(meetings[index]),
            trouble=troubles[index],
        )
        for index, engine in enumerate(seats.engines)
        if not is_router(engine)
    ]


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _superseded(row: EngineRow, rows: Sequence[EngineRow], window_ns: int) -> bool:
    if row.roles or (row.silent is not None and row.silent <= window_ns):
        return False
    later = [other.silent for other in rows if other.name == row.name and other is not row and other.silent is not None]
    return bool(later) and (row.silent is None or min(later) < row.silent)

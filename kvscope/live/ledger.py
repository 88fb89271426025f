"""What early commitment costs on each engine. The figures of all are the summary's, and these add up to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvscope.analysis.holding import PINNED, RESERVED, Held, held_by_engine
from kvscope.analysis.price import kv_blocks
from kvscope.live import enginefigures
from kvscope.live.naming import natural
from kvscope.live.seats import seats_of
from kvscope.live.snapshot import Snapshot


@dataclass(frozen=True)
class Account:
    """One engine. None: it has no such part, or it is not known."""

    engine: str
    reserved: Held | None
    pinned: Held | None
    connector_share: float | None
    wake_p95: float | None


@dataclass(frozen=True)
class Backlog:
    """What writers have been given and have not done, over all engines, in requests."""

    blocks: int
    registrations: int
    writers: int
    """engines that push"""


def accounts(snapshot: Snapshot) -> tuple[Account, ...]:
    """Engines that held blocks, in the order of their names; several starts of one are one here."""
    blocks = kv_blocks(snapshot.processes)
    reserved, pinned = (held_by_engine(snapshot.window, side, blocks) for side in (RESERVED, PINNED))
    connector = {step.engine: step.share for step in snapshot.summary.price.connector}
    wake = _wakes(snapshot)
    return tuple(
        Account(name, reserved.get(name), pinned.get(name), connector.get(name), wake.get(name))
        for name in sorted(reserved.keys() | pinned.keys(), key=natural)
    )


def _wakes(snapshot: Snapshot) -> dict[str, float]:
    """engine -> p95 of its writer's wake-up; of the latest start where there are several"""
    seats = seats_of(snapshot)
    found = enginefigures.writer_wake(snapshot.window, seats)
    known = np.flatnonzero(~np.isnan(found)).tolist()
    return {seats.engines[index].engine: float(found[index]) for index in known}


def backlog(snapshot: Snapshot) -> Backlog:
    """As it is now."""
    found = enginefigures.backlogs(snapshot.window, seats_of(snapshot)).values()
    return Backlog(sum(each.blocks for each in found), sum(each.registrations for each in found), len(found))

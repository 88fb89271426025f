"""Figures of all engines at once: each function goes once over the rows, and gives a number per engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvscope.analysis.steps import step_lengths
from kvscope.live.grouping import grouped_percentile, grouped_percentiles, grouped_sum
from kvscope.live.seats import LEGS, Seats
from kvscope.model.events import Events
from kvscope.model.graph import NODE, STAGE_INDEX
from kvscope.model.requests import State
from kvscope.model.splits import Splits
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE, REASONS, UNKNOWN, VALUES

QUEUES: dict[str, tuple[str, tuple[str, ...]]] = {
    "prefill": ("prefill_queue", ("P.scheduled",)),
    "decode": ("decode_admission", ("D.reserved", "D.scheduled")),
}
"""leg -> the stage in which its engine lets it wait, and the moments that end it"""
HANDSHAKE = np.array(["handshake" in reason for reason in REASONS])
EXPIRED = np.array([reason.endswith("expired") for reason in REASONS])
_BEGUN, _ENDED = MOMENT_CODE["handshake_begun"], MOMENT_CODE["handshake_ended"]


@dataclass(frozen=True)
class Load:
    """What a scheduler said last."""

    waiting: int
    running: int
    held: int
    """for remote KV"""
    free_blocks: int

    @property
    def busy(self) -> bool:
        """Whether there is anything to do."""
        return self.waiting + self.running + self.held > 0


@dataclass(frozen=True)
class Trouble:
    """Failures of the window's requests: the first of each."""

    handshakes: int
    expired: int
    other: int

    @property
    def failed(self) -> int:
        """All of them."""
        return self.handshakes + self.expired + self.other


@dataclass(frozen=True)
class Backlog:
    """What a writer has been given and has not done, in requests under way."""

    blocks: int
    """finished blocks handed to it and not staged"""
    registrations: int
    """to be sent, or sent to it and not received"""


def latest_loads(events: Events, seats: Seats) -> dict[int, Load]:
    """engine -> its load; engines that told none are left out"""
    names = VALUES["load"]
    rows = np.flatnonzero(events.rows["moment"] == MOMENT_CODE["load"])
    newest_first = rows[np.argsort(events.rows["t"][rows], kind="stable")[::-1]]
    seat = seats.of_process[events.rows["process"][newest_first]]
    engines, newest = np.unique(seat, return_index=True)
    values = events.rows["values"][newest_first[newest], : len(names)].tolist()
    told = zip(engines.tolist(), values, strict=True)
    return {engine: Load(**dict(zip(names, value, strict=True))) for engine, value in told if UNKNOWN not in value}


def idle_blocks(window: Splits, seats: Seats) -> np.ndarray:
    """(engines,) blocks that decode legs under way hold empty; NaN where none ever reserved, or one did not say."""
    reserved = (window.time[:, NODE["D.reserved"]] != UNKNOWN) & (seats.on["decode"] >= 0)
    still = reserved & (window.reserved_idle == UNKNOWN) & window.in_state(State.UNFINISHED)
    blocks = np.where(window.reserved_blocks == UNKNOWN, np.nan, window.reserved_blocks)[still]
    held = grouped_sum(blocks, seats.on["decode"][still], len(seats))
    return np.where(seats.counts("decode", reserved) > 0, held, np.nan)


def queued(window: Splits, seats: Seats, leg: str) -> np.ndarray:
    """(engines,) ns: p50 of the wait to be let in; NaN of no request"""
    stage, ends = QUEUES[leg]
    return _waited(window, seats, leg, stage, ends, 50)


def writer_wake(window: Splits, seats: Seats) -> np.ndarray:
    """(engines,) ns: p95 of how long handed blocks waited for prefill's writer; NaN of no request"""
    return _waited(window, seats, "prefill", "writer_wake", ("staged",), 95)


def _waited(window: Splits, seats: Seats, leg: str, stage: str, ends: tuple[str, ...], percentile: int) -> np.ndarray:
    ns, seat = waits(window, seats, leg, stage, ends)
    return grouped_percentile(ns, seat, len(seats), percentile)


def waits(window: Splits, seats: Seats, leg: str, stage: str, ends: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """((n,) ns in a stage, (n,) engine), on the path or hidden, of requests that got through it."""
    seat, column = seats.on[leg], STAGE_INDEX[stage]
    through = (window.time[:, [NODE[end] for end in ends]] != UNKNOWN).any(axis=1) & (seat >= 0)
    return window.exposed[through, column] + window.hidden[through, column], seat[through]


def step_figures(events: Events, seats: Seats) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(engines,) each: ns at p50, at p95, share of the time that the connector took; NaN of no step"""
    found = step_lengths(events)
    seat = seats.of_process[found.process]
    middle, slow = grouped_percentiles(found.ns, seat, len(seats), (50, 95))
    spent, inside = (grouped_sum(ns, seat, len(seats)) for ns in (found.ns, found.connector_ns))
    return middle, slow, np.divide(inside, spent, where=spent > 0, out=np.full(len(seats), np.nan))


def backlogs(window: Splits, seats: Seats) -> dict[int, Backlog]:
    """engine -> what its writer has before it; engines that pushed nothing are left out"""
    open_ = window.in_state(State.UNFINISHED)
    blocks = _between(window, "P.handed", "staged", "matched") & open_
    unsent = _between(window, "D.handed", "registration_sent", "notified") & open_
    unread = _between(window, "registration_sent", "registration_received", "matched") & open_
    staging = seats.counts("prefill", blocks)
    registering = seats.counts("decode", unsent) + seats.counts("prefill", unread)
    pushed = window.shaped("push") | blocks | unsent | unread
    pushing = seats.counts("prefill", pushed) + seats.counts("decode", pushed)
    return {index: Backlog(int(staging[index]), int(registering[index])) for index in np.flatnonzero(pushing).tolist()}


def _between(window: Splits, begun: str, *ends: str) -> np.ndarray:
    """(n,) bool: the first moment was seen and none of the others"""
    ended = (window.time[:, [NODE[end] for end in ends]] != UNKNOWN).any(axis=1)
    return np.asarray((window.time[:, NODE[begun]] != UNKNOWN) & ~ended)


def handshakes(events: Events, seats: Seats) -> np.ndarray:
    """(engines,) first contacts that began, or whose end alone lies in the window"""
    rows = events.rows
    begun, ended = (
        np.bincount(seats.of_process[rows["process"][rows["moment"] == moment]], minlength=len(seats))
        for moment in (_BEGUN, _ENDED)
    )
    return np.maximum(begun, ended)


def troubles(window: Splits, seats: Seats) -> list[Trouble]:
    """Failures by engine: on the leg that they struck."""
    reason = np.where(window.failure[:, 1] < len(REASONS), window.failure[:, 1], 0)
    kinds = (HANDSHAKE[reason], EXPIRED[reason], ~HANDSHAKE[reason] & ~EXPIRED[reason])
    struck = {leg: window.failure[:, 0] == LEG_CODE[leg] for leg in LEGS}
    counts = [sum(seats.counts(leg, struck[leg] & kind) for leg in LEGS) for kind in kinds]
    return [Trouble(*numbers) for numbers in np.stack(counts, axis=1).tolist()]

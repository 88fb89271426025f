"""Gauges of requests that are under way: where they stand, what they hold, what waits for writers."""

from __future__ import annotations

import numpy as np

from kvscope.metrics.labels import LAST_MOMENTS
from kvscope.metrics.roll import Roll
from kvscope.metrics.tables import Store
from kvscope.model.graph import NODE
from kvscope.model.splits import Splits
from kvscope.probe.vocabulary import LEGS, MOMENTS, UNKNOWN

_COLUMN = {moment: index for index, moment in enumerate(LAST_MOMENTS)}


def look_at(store: Store, waiting: Splits, roll: Roll, now: int) -> None:
    """Set them. waiting: requests without a first token that are not over"""
    used = np.concatenate((waiting.prefill_engine, waiting.decode_engine))
    seats = roll.seats(waiting.engines, used, now)
    prefill, decode = seats[waiting.prefill_engine], seats[waiting.decode_engine]
    group = np.where(decode[:, 1] >= 0, decode[:, 1], prefill[:, 1])
    _where_they_stand(store, waiting, np.where(group >= 0, group, roll.groups.rest))
    _what_they_hold(store, waiting, decode[:, 0])
    _backlogs(store, waiting, prefill[:, 0], decode[:, 0])


def _where_they_stand(store: Store, waiting: Splits, group: np.ndarray) -> None:
    """Whatever was told once is told as 0 when it is over."""
    flight, oldest = store.table("requests_in_flight"), store.table("requests_in_flight_oldest_seconds")
    counted, seen = store.histogram("ttft_seconds").counts.any(axis=(1, 2)), ~np.isnan(flight.values)
    flight.values[seen] = 0
    oldest.values[counted | seen.any(axis=1), 0] = 0
    last = zip(group.tolist(), waiting.last_moment[:, :2].tolist(), waiting.age.tolist(), strict=True)
    for row, (leg, moment), age in last:
        column = _COLUMN.get((LEGS[leg], MOMENTS[moment]))
        if column is not None:
            flight.values[row, column] = np.nan_to_num(flight.values[row, column]) + 1
            oldest.values[row, 0] = max(np.nan_to_num(oldest.values[row, 0]), age)


def _what_they_hold(store: Store, waiting: Splits, decode: np.ndarray) -> None:
    idle = store.table("engine_reserved_idle_blocks")
    reserved = (waiting.time[:, NODE["D.reserved"]] != UNKNOWN) & (waiting.reserved_idle == UNKNOWN)
    reserved &= (waiting.reserved_blocks != UNKNOWN) & (decode >= 0)
    _set(idle.values, 0, decode[reserved], waiting.reserved_blocks[reserved], _decoding(store))


def _backlogs(store: Store, waiting: Splits, prefill: np.ndarray, decode: np.ndarray) -> None:
    """As an engine's row in a view has them."""
    backlog = store.table("engine_writer_backlog_requests").values
    blocks = _between(waiting, "P.handed", "staged", "matched") & (prefill >= 0)
    unsent = _between(waiting, "D.handed", "registration_sent", "notified") & (decode >= 0)
    unread = _between(waiting, "registration_sent", "registration_received", "matched") & (prefill >= 0)
    pushing = _writers(store)
    _set(backlog, 0, prefill[blocks], np.ones(int(blocks.sum())), pushing)
    rows = np.concatenate((decode[unsent], prefill[unread]))
    _set(backlog, 1, rows, np.ones(len(rows)), pushing)


def _set(values: np.ndarray, column: int, rows: np.ndarray, amounts: np.ndarray, always: np.ndarray) -> None:
    """Sums by row; 0 where there was ever one, or one can be (`always`)."""
    known = always | ~np.isnan(values[:, column])
    sums = np.bincount(rows, amounts, len(values))
    known |= sums > 0
    values[known, column] = sums[known]


def _decoding(store: Store) -> np.ndarray:
    """(rows,) engines that had a decode leg"""
    return np.asarray(store.table("engine_legs_total").values[:, 1] > 0)


def _writers(store: Store) -> np.ndarray:
    """(rows,) engines that had something to do with a push"""
    stages = store.table("engine_stage_seconds_total")
    names = ("writer_wake", "registration_handoff", "registration_send")
    columns = [index for labels, index in stages.column.items() if labels[0] in names]
    return np.asarray((stages.values[:, columns] > 0).any(axis=1))


def _between(waiting: Splits, begun: str, *ends: str) -> np.ndarray:
    """(n,) bool: the first moment was seen and none of the others"""
    ended = (waiting.time[:, [NODE[end] for end in ends]] != UNKNOWN).any(axis=1)
    return np.asarray((waiting.time[:, NODE[begun]] != UNKNOWN) & ~ended)

"""What engines say of themselves: steps, load, first contacts, losses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvscope.analysis.setup import label_of
from kvscope.analysis.steps import step_lengths
from kvscope.metrics.labels import HOLD_OF_REASON, SIDES
from kvscope.metrics.roll import Roll
from kvscope.metrics.tables import Store
from kvscope.model.events import Events, Process
from kvscope.probe.vocabulary import MOMENT_CODE, UNKNOWN, VALUES

_STEP, _LOAD, _HELD = MOMENT_CODE["step"], MOMENT_CODE["load"], MOMENT_CODE["held"]
_BEGUN, _ENDED = MOMENT_CODE["handshake_begun"], MOMENT_CODE["handshake_ended"]
_LOADS = tuple(VALUES["load"].index(name) for name in ("waiting", "running", "held"))
_FREE = VALUES["load"].index("free_blocks")
_PEER = VALUES["handshake_begun"].index("peer_engine")
_ROLE = {"kv_producer": "prefill", "kv_consumer": "decode"}
MOST_OPEN = 10_000
"""First contacts under way that are remembered."""


class Contacts:
    """First contacts that began and have not been made."""

    def __init__(self) -> None:
        self._begun: dict[tuple[int, int], int] = {}

    def made_in(self, rows: np.ndarray, engine: np.ndarray) -> dict[int, int]:
        """engine -> ns of the contacts that were made, by the rows of both moments, oldest first."""
        took: dict[int, int] = {}
        told = zip(rows["moment"].tolist(), rows["values"][:, _PEER].tolist(), rows["t"].tolist(), strict=True)
        for row, (moment, peer, t) in zip(engine.tolist(), told, strict=True):
            if moment == _BEGUN:
                self._begun[row, peer] = t
            else:
                took[row] = took.get(row, 0) + max(0, t - self._begun.pop((row, peer), t))
        while len(self._begun) > MOST_OPEN:
            del self._begun[next(iter(self._begun))]
        return took


def add_engine_events(store: Store, events: Events, roll: Roll, contacts: Contacts, now: int) -> None:
    """Count what one batch holds. Its processes have been seen by the roll."""
    process = events.rows["process"]
    seats = roll.seats(events.processes, process, now)
    row = seats[process, 0]
    store.table("engine_events_total").add(row[row >= 0], 0, 1)
    store.table("reader_events_total").add(np.zeros(len(row), int), 0, 1)
    _steps(store, events, seats, roll)
    _loads(store, events, row)
    _holds(store, events, row)
    _contacts(store, events, row, contacts)


def _steps(store: Store, events: Events, seats: np.ndarray, roll: Roll) -> None:
    found = step_lengths(events)
    row, group = seats[found.process].T
    here = row >= 0
    row, group, ns, process = row[here], group[here], found.ns[here], found.process[here]
    store.table("engine_steps_total").add(row, 0, 1)
    store.table("engine_step_seconds_total").add(row, 0, ns)
    store.table("engine_step_connector_seconds_total").add(row, 0, found.connector_ns[here])
    store.histogram("step_seconds").observe(group, legs_of(store, roll, events.processes, seats[:, 0])[process], ns)


def legs_of(store: Store, roll: Roll, processes: Sequence[Process], rows: np.ndarray) -> np.ndarray:
    """(processes + 1,) index of the leg that the engine of each serves, len(SIDES) where nothing says so: as its
    connector's role says, else as the requests of its row (processes + 1,) show."""
    counts = store.table("engine_legs_total").values
    legs = np.where(counts.any(axis=1), counts.argmax(axis=1), len(SIDES))[rows]
    for index in np.flatnonzero(rows[:-1] >= 0).tolist():
        told = _ROLE.get(str(roll.engines[label_of(processes[index])].facts.get("role")))
        if told is not None:
            legs[index] = SIDES.index(told)
    return np.asarray(legs)


def _loads(store: Store, events: Events, row: np.ndarray) -> None:
    """The latest of each engine."""
    at = np.flatnonzero((events.rows["moment"] == _LOAD) & (row >= 0))
    newest_first = at[np.argsort(events.rows["t"][at], kind="stable")[::-1]]
    engines, newest = np.unique(row[newest_first], return_index=True)
    values = events.rows["values"][newest_first[newest]]
    told = np.where(values == UNKNOWN, np.nan, values)
    store.table("engine_requests").values[engines] = told[:, _LOADS]
    store.table("engine_kv_blocks_free").values[engines, 0] = told[:, _FREE]


def _holds(store: Store, events: Events, row: np.ndarray) -> None:
    at = np.flatnonzero((events.rows["moment"] == _HELD) & (row >= 0))
    store.table("engine_holds_total").add(row[at], HOLD_OF_REASON[events.rows["reason"][at]], 1)


def _contacts(store: Store, events: Events, row: np.ndarray, contacts: Contacts) -> None:
    rows = events.rows
    at = np.flatnonzero(np.isin(rows["moment"], (_BEGUN, _ENDED)) & (row >= 0))
    at = at[np.argsort(rows["t"][at], kind="stable")]
    for name, moment in (("begun", _BEGUN), ("ended", _ENDED)):
        mine = row[at[rows["moment"][at] == moment]]
        store.table(f"engine_handshakes_{name}_total").add(mine, 0, 1)
    for engine, ns in contacts.made_in(rows[at], row[at]).items():
        store.table("engine_handshake_seconds_total").values[engine, 0] += ns

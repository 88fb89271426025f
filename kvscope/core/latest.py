"""How far each request has come: its latest moment, and how far the clock of that lies behind."""

from __future__ import annotations

import numpy as np

from kvscope.core.columns import Columns
from kvscope.core.legs import NONE
from kvscope.model.graph import ALL_NODES
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE, UNKNOWN

_LEGS = np.array([LEG_CODE["decode" if node.leg == "poster" else node.leg] for node in ALL_NODES])
_MOMENTS = np.array([MOMENT_CODE[node.moment or "none"] for node in ALL_NODES])


def last_moments(columns: Columns, lag: np.ndarray, moved: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n, 3) leg, moment and time of the latest moment of the request; (n,) how far its clock lies behind.

    lag: (processes,) of the clock of each; moved: (n,) of the clock that a request was moved to, UNKNOWN where of none.

    Where clocks do not compare, of the leg that the request ends on.
    """
    process = columns.legs.rows["process"]
    late, alone = np.where(columns.at == NONE, UNKNOWN, columns.time), np.zeros(len(columns), bool)
    apart = np.flatnonzero(columns.joined.unaligned)
    late[:, apart] = np.where(_on_last_leg(columns, apart), late[:, apart], UNKNOWN)
    last = len(late) - 1 - late[::-1].argmax(axis=0)  # of several at once, the latest in the graph
    leg = _LEGS[last]
    posted = np.array([node.leg == "poster" for node in ALL_NODES])[last]
    leg = np.where(posted & ~columns.pull, LEG_CODE["prefill"], leg)
    there = (last, np.arange(len(columns)))
    latest, behind = np.stack((leg, _MOMENTS[last], late[there]), axis=1), lag[process[columns.at[there]]]
    for row in np.flatnonzero(latest[:, 2] == UNKNOWN).tolist():
        event = _latest_event(columns, row)
        latest[row], behind[row] = (event["leg"], event["moment"], event["t"]), lag[event["process"]]
        alone[row] = True
    return latest, np.where((moved == UNKNOWN) | alone, behind, moved)


def _on_last_leg(columns: Columns, rows: np.ndarray) -> np.ndarray:
    """(ALL_NODES, k) of these rows, what was stamped on the decode leg, or on prefill's where there is no other."""
    last = np.where(columns.joined.decode[rows] != NONE, LEG_CODE["decode"], LEG_CODE["prefill"])
    return np.asarray(columns.legs.rows["leg"][columns.at[:, rows]] == last)


def _latest_event(columns: Columns, row: int) -> np.void:
    """Of a request that has no node of the graph: a `chunk` alone, where a recording was cut."""
    legs, joined = columns.legs, columns.joined
    its = [leg for leg in (joined.decode[row], joined.prefill[row], joined.router[row]) if leg != NONE]
    its = its[:1] if joined.unaligned[row] else its
    spans = [np.arange(*np.searchsorted(legs.leg, (leg, leg + 1))) for leg in its]
    events = legs.rows[np.concatenate(spans)]
    event: np.void = events[events["t"].argmax()]
    return event

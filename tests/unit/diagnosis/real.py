"""Real recordings, and incidents made of them: moments changed as a fault would have changed them.

A delay moves a moment and all that waits for it, and nothing else, so that what is left is a recording of the same
requests on which that fault fell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from kvscope.core.critical_path import split
from kvscope.model.events import EVENT, Events, stacked
from kvscope.model.graph import ALL_NODES, EDGES, NODE, NODES, RETURN_READ
from kvscope.model.ids import router_id
from kvscope.model.splits import Splits
from kvscope.probe.recorder import key64
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE, REASON_CODE, UNKNOWN, VALUES
from kvscope.sources import open_sources

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"
RECORDINGS = ("push-early", "push-sequential", "pull")
MS = 1_000_000
FLIGHT = 2 * MS
"""How long a registration travels to a writer that waits for it."""
Delays = Mapping[str, Callable[[Splits], np.ndarray] | float]
"""node -> ms by which it comes later than what it waits for, of each request or of all"""
_PREDECESSORS = {node.name: [edge.frm for edge in EDGES if edge.to == node.name] for node in NODES}
_WALL = VALUES["arrived"].index("wall_ns")
_LOOKED = VALUES["registration_received"].index("looked")


@cache
def recording(name: str) -> Events:
    """A recording of a real pair, healthy."""
    return open_sources([PICTURES / f"{name}.kvs"]).events


def second_half(splits: Splits) -> np.ndarray:
    """(n,) bool: the later half of the requests"""
    return np.asarray(splits.origin >= np.median(splits.origin))


def everyone(splits: Splits) -> np.ndarray:
    """(n,) bool"""
    return np.ones(len(splits), bool)


def delayed(
    events: Events,
    delays: Delays,
    whom: Callable[[Splits], np.ndarray] = second_half,
    after_prefill: bool = False,
) -> Events:
    """The same requests with some moments later. after_prefill: decode is called when prefill is done, and knows it."""
    splits = split(events)
    struck = whom(splits)
    late = {
        node: np.where(struck, by(splits) if callable(by) else np.full(len(splits), by), 0) * MS
        for node, by in delays.items()
    }
    old = splits.time[:, : len(NODES)].copy()
    old[:, list(RETURN_READ)] = UNKNOWN  # a push's post on prefill fills these, too
    new = np.stack([_moved(splits, old, row, late, after_prefill and bool(struck[row])) for row in range(len(splits))])
    return _shifted(events, splits, old, new)


def _moved(
    splits: Splits, times: np.ndarray, row: int, late: Mapping[str, np.ndarray], after_prefill: bool
) -> np.ndarray:
    old = {node.name: int(times[row, NODE[node.name]]) for node in NODES}
    new: dict[str, int] = {}
    knew = splits.knew[row] == 1
    for node in NODES:
        name = node.name
        if old[name] == UNKNOWN:
            continue
        before = [frm for frm in _PREDECESSORS[name] if frm in new]
        if name == "D.arrived":
            before = ["P.computed" if knew else "origin"] if "P.computed" in new else before
        if name == "post_begun" and "matched" in new:
            before = ["matched"]
        by = int(late.get(name, np.zeros(len(splits)))[row])
        if name == "D.arrived" and after_prefill and not knew:
            new[name] = new["P.computed"] + 3 * MS + by
        elif name == "registration_received" and "staged" in new:
            new[name] = _received(old, new) + by
        elif not before:
            new[name] = old[name] + by
        else:
            new[name] = max(new[frm] for frm in before) + old[name] - max(old[frm] for frm in before) + by
    return np.array([new.get(node.name, UNKNOWN) for node in NODES])


def _received(old: Mapping[str, int], new: Mapping[str, int]) -> int:
    """A writer that holds blocks looks at once; one that is parked looks when it gets blocks."""
    flight = old["registration_received"] - old["registration_sent"]
    if new["registration_sent"] > new["staged"]:
        waited = old["registration_sent"] > old["staged"]
        return new["registration_sent"] + (flight if waited else min(flight, FLIGHT))
    if old["registration_received"] >= old["staged"]:
        return new["staged"] + old["registration_received"] - old["staged"]
    return min(new["registration_sent"] + flight, new["staged"])


def _shifted(events: Events, splits: Splits, old: np.ndarray, new: np.ndarray) -> Events:
    rows = events.rows.copy()
    place = {int(key): row for row, key in enumerate(splits.request.tolist())}
    place |= {key64(router_id(splits.text(row))): row for row in range(len(splits))}
    place |= {int(key): row for row, key in enumerate(splits.peer_request.tolist()) if key}
    for event in rows:
        row = place.get(int(event["request"]))
        if row is None:
            continue
        by = _shift_at(old[row], new[row], int(event["t"]), int(event["leg"]), int(event["moment"]))
        event["t"] += by
        if event["moment"] == MOMENT_CODE["arrived"] and event["values"][_WALL] != UNKNOWN:
            event["values"][_WALL] += by
        if event["moment"] == MOMENT_CODE["registration_received"]:
            sent, staged = new[row, NODE["registration_sent"]], new[row, NODE["staged"]]
            looked = max(staged, sent - MS) if sent > staged else min(event["values"][_LOOKED] + by, sent - 1)
            event["values"][_LOOKED] = looked
    return replace(events, rows=rows)


_ROUTER = {MOMENT_CODE["prefill_returned"]: NODE["P.computed"], MOMENT_CODE["decode_sent"]: NODE["D.arrived"],
           MOMENT_CODE["first_byte"]: NODE["first_token"]}  # fmt: skip
_LEGS = {"prefill": ("prefill",), "decode": ("decode",), "poster": ("prefill", "decode"), "none": ()}


def _shift_at(old: np.ndarray, new: np.ndarray, t: int, leg: int, moment: int) -> int:
    """What the node itself moved by; of what is no node, what its leg moved by until then."""
    if leg == LEG_CODE["router"]:
        node = _ROUTER.get(moment)
        return int(new[node] - old[node]) if node is not None and old[node] != UNKNOWN else 0
    mine = [
        index
        for index, node in enumerate(NODES)
        if old[index] != UNKNOWN and any(LEG_CODE[name] == leg for name in _LEGS[node.leg])
    ]
    exact = [index for index in mine if old[index] == t and MOMENT_CODE[NODES[index].moment] == moment]
    if exact:
        return int(new[exact[0]] - old[exact[0]])
    posted_done = NODE["transferred"]
    if moment == MOMENT_CODE["done_seen"] and old[posted_done] != UNKNOWN:
        return int(new[posted_done] - old[posted_done])
    earlier = [index for index in mine if old[index] <= t]
    if not earlier:
        return 0
    last = max(earlier, key=lambda index: (old[index], index))
    return int(new[last] - old[last])


def without(events: Events, drop: Callable[[np.ndarray], np.ndarray]) -> Events:
    """Without some of the rows: `drop` gives (rows,) bool."""
    return replace(events, rows=events.rows[~drop(events.rows)])


def with_rows(events: Events, *made: np.ndarray) -> Events:
    """With more rows."""
    return replace(events, rows=stacked([events.rows, *made])) if made else events


def row(events: Events, moment: str, leg: str, engine: str, t: int, request: int = 0, **values: Any) -> np.ndarray:
    """(1,) of EVENT."""
    made = np.zeros(1, EVENT)
    made["values"] = UNKNOWN
    made["t"], made["moment"], made["leg"], made["request"] = t, MOMENT_CODE[moment], LEG_CODE[leg], request
    made["process"] = next(at for at, process in enumerate(events.processes) if process.engine == engine)
    made["reason"] = REASON_CODE[values.pop("reason", "none")]
    for name, value in values.items():
        made["values"][0, VALUES[moment].index(name)] = value
    return made


def keys(splits: Splits, whom: np.ndarray, leg: str) -> np.ndarray:
    """Request keys of the legs of some requests."""
    both = splits.peer_request != 0
    prefill = np.where(both, splits.peer_request, np.where(splits.decode_engine < 0, splits.request, 0))
    found = splits.request if leg == "decode" else prefill
    return np.asarray(found[whom & (found != 0)])


def leg_rows(rows: np.ndarray, wanted: np.ndarray, *moments: str) -> np.ndarray:
    """(rows,) bool: of these request keys, of these moments (all if none)"""
    mine = np.isin(rows["request"], wanted)
    if moments:
        mine &= np.isin(rows["moment"], [MOMENT_CODE[name] for name in moments])
    return np.asarray(mine)


assert {"D.held", "P.released"} <= {node.name for node in ALL_NODES}

"""What is cut out of a stage because something else was seen to run inside it.

A handshake inside `registration_send`, `prepare` or `read_handoff`; other requests' steps and
preemption inside a prefill. A handshake carries no request id: engine, peer and time decide.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvscope.core.columns import Columns
from kvscope.core.legs import DECODE, NONE, PREFILL, Legs, value_column
from kvscope.core.walk import Walk
from kvscope.model.graph import EDGES, NODE, STAGE_INDEX
from kvscope.model.membership import among
from kvscope.model.splits import CARVE
from kvscope.probe.vocabulary import MOMENT_CODE, UNKNOWN

INTERVAL = np.dtype([("leg", "i8"), ("stage", "u1"), ("begin", "i8"), ("end", "i8")])
_HANDSHAKE, _GAP, _PREEMPTED = (STAGE_INDEX[name] for name in ("handshake", "prefill_gap", "preempted"))
_COMPUTING = tuple(MOMENT_CODE[name] for name in ("scheduled", "chunk", "resumed"))
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Handshakes:
    """First contacts: between which engines, and when."""

    engine: np.ndarray
    peer: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    rtt: np.ndarray
    """ns, UNKNOWN where none was measured"""
    offset: np.ndarray
    """ns that the peer's clock is ahead, likewise"""


def carve(columns: Columns, walks: tuple[Walk, ...]) -> np.ndarray:
    """Cut the pieces out of the walks' stages (in place) and return them, (k,) CARVE sorted by row, walk, time."""
    legs = columns.legs
    meetings, intervals = handshakes(legs), np.concatenate((preemptions(legs), gaps(legs)))
    intervals = intervals[np.argsort(intervals["leg"], kind="stable")]
    pieces = [np.empty(0, CARVE)]
    for number, walk in enumerate(walks):
        for edge in EDGES:
            if "handshake" in edge.less and len(meetings.begin):
                pieces.append(_of_handshakes(columns, walk, number, edge.to, meetings))
        for node, leg in (("P.computed", columns.joined.prefill), ("first_token", columns.joined.decode)):
            if len(intervals):
                pieces.append(_of_intervals(walk, number, NODE[node], leg, intervals, columns.shift(node)))
    found = np.concatenate(pieces)
    if not len(found):
        return found
    found = _disjoint(found[np.lexsort((found["end"], found["begin"], found["node"], found["walk"], found["row"]))])
    _cut(found, walks)
    return found


def handshakes(legs: Legs) -> Handshakes:
    """Begun and ended paired by engine, peer and rank; one that never ended is left out."""
    code = value_column("handshake_begun", "peer_engine")
    begun = np.flatnonzero(legs.moment == MOMENT_CODE["handshake_begun"])
    ended = np.flatnonzero(legs.moment == MOMENT_CODE["handshake_ended"])
    at = np.concatenate((begun, ended))
    rows, engine = legs.rows[at], legs.engine[legs.leg[at]]
    is_end = np.arange(len(at)) >= len(begun)
    peer = rows["values"][:, code]
    order = np.lexsort((is_end, rows["t"], rows["rank"], peer, engine))
    engine, peer, t, is_end, rank = engine[order], peer[order], rows["t"][order], is_end[order], rows["rank"][order]
    alike = (engine[1:] == engine[:-1]) & (peer[1:] == peer[:-1]) & (rank[1:] == rank[:-1])
    first = np.flatnonzero(alike & ~is_end[:-1] & is_end[1:])
    measured = rows["values"][order[first + 1]]
    rtt, offset = (measured[:, value_column("handshake_ended", name)] for name in ("rtt_ns", "offset_ns"))
    return Handshakes(engine[first], legs.engines.resolve(peer[first], legs.texts), t[first], t[first + 1], rtt, offset)


def _of_handshakes(columns: Columns, walk: Walk, number: int, to: str, meetings: Handshakes) -> np.ndarray:
    """The handshakes between a request's two engines that ran while the edge was crossed."""
    node = NODE[to]
    at_decode = to in ("registration_sent", "post_begun")
    joined, engines = columns.joined, np.append(columns.legs.engine, NONE)
    here, there = (joined.decode, joined.prefill) if at_decode else (joined.prefill, joined.decode)
    told = to != "P.post_begun"  # whom an earlier turn was decoded by is not told
    peer = np.where(there == NONE, joined.peer, engines[there]) if told else 0
    keys = _meeting(meetings.engine, meetings.peer if told else 0)
    order = np.argsort(keys, kind="stable")
    rows, shift = np.flatnonzero(walk.begin[node] != UNKNOWN), np.broadcast_to(columns.shift(to), len(columns))
    rows = rows[_meanwhile(meetings, walk.begin[node, rows] - shift[rows], walk.end[node, rows] - shift[rows])]
    row, at = _matches(_meeting(engines[here], peer)[rows], keys[order])
    row, at = rows[row], order[at]
    begin = np.maximum(walk.begin[node, row], meetings.begin[at] + shift[row])
    end = np.minimum(walk.end[node, row], meetings.end[at] + shift[row])
    some = begin < end
    return _pieces(row[some], number, node, _HANDSHAKE, begin[some], end[some])


def _meanwhile(meetings: Handshakes, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """(n,) bool: something was under way in [begin, end), of whomever. Nearly always nothing was."""
    begun = np.searchsorted(np.sort(meetings.begin), end)
    return np.asarray(begun > np.searchsorted(np.sort(meetings.end), begin, "right"))


def _meeting(engine: np.ndarray, peer: np.ndarray | int) -> np.ndarray:
    """(n,) one number for who met whom; both may be below 0"""
    return np.asarray((engine.astype(np.int64) << 32) + peer)


def _matches(wanted: np.ndarray, ordered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(k,) index into `wanted`, (k,) index into `ordered` (ascending): every pair that is alike."""
    low, high = np.searchsorted(ordered, wanted), np.searchsorted(ordered, wanted, "right")
    counts = high - low
    row = np.repeat(np.arange(len(wanted)), counts)
    return row, np.repeat(low - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())


def _pieces(
    row: np.ndarray, walk: int, node: int, stage: np.ndarray | int, begin: np.ndarray, end: np.ndarray
) -> np.ndarray:
    found = np.empty(len(row), CARVE)
    found["row"], found["walk"], found["node"] = row, walk, node
    found["stage"], found["begin"], found["end"] = stage, begin, end
    return found


def _of_intervals(
    walk: Walk, number: int, node: int, leg: np.ndarray, intervals: np.ndarray, shift: np.ndarray | int
) -> np.ndarray:
    """The intervals of each row's leg, clipped to the edge; shift: (n,) as of `Columns`."""
    rows = np.flatnonzero((leg != NONE) & (walk.begin[node] != UNKNOWN))
    row, at = _matches(leg[rows], intervals["leg"])
    row = rows[row]
    moved = np.broadcast_to(shift, len(leg))[row]
    begin = np.maximum(intervals["begin"][at] + moved, walk.begin[node, row])
    end = np.minimum(intervals["end"][at] + moved, walk.end[node, row])
    some = begin < end
    return _pieces(row[some], number, node, intervals["stage"][at][some], begin[some], end[some])


def preemptions(legs: Legs) -> np.ndarray:
    """(k,) INTERVAL: from each `preempted` to the leg's next time in a batch."""
    back = among(legs.moment, *_COMPUTING)
    at = np.flatnonzero(back | (legs.moment == MOMENT_CODE["preempted"]))
    at = at[np.lexsort((back[at], legs.rows["t"][at], legs.leg[at]))]
    out = np.flatnonzero(~back[at][:-1] & back[at][1:] & (legs.leg[at][:-1] == legs.leg[at][1:]))
    return _intervals(legs.leg[at[out]], _PREEMPTED, legs.rows["t"][at[out]], legs.rows["t"][at[out + 1]])


def _intervals(leg: np.ndarray, stage: int, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    found = np.empty(len(leg), INTERVAL)
    found["leg"], found["stage"], found["begin"], found["end"] = leg, stage, begin, end
    return found


def gaps(legs: Legs) -> np.ndarray:
    """(k,) INTERVAL: engine steps between two chunks of a prompt that ran without it."""
    steps = _steps(legs)
    computing = among(legs.moment, *_COMPUTING)
    at = np.flatnonzero(computing & among(legs.role[legs.leg], PREFILL, DECODE))
    at = at[np.lexsort((legs.rows["t"][at], legs.leg[at]))]
    leg, step = legs.leg[at], legs.rows["step"][at].astype(np.int64)
    between = (leg[1:] == leg[:-1]) & (step[1:] > step[:-1] + 1) & (step[:-1] > 0)
    chunk = legs.moment[at][1:] == MOMENT_CODE["chunk"]
    first = np.flatnonzero(between & chunk)
    engine = legs.engine[leg[first]].astype(np.int64) << 40
    low = np.searchsorted(steps["key"], engine + step[first], "right")
    high = np.searchsorted(steps["key"], engine + step[first + 1], "left")
    row = np.repeat(np.arange(len(first)), high - low)
    inside = np.repeat(low - np.cumsum(high - low) + high - low, high - low) + np.arange((high - low).sum())
    return _intervals(leg[first][row], _GAP, steps["begin"][inside], steps["end"][inside])


_STEP = np.dtype([("key", "i8"), ("begin", "i8"), ("end", "i8")])


def _steps(legs: Legs) -> np.ndarray:
    """Steps that ran a forward, by engine and number; of one step's records the widest counts."""
    at = np.flatnonzero(legs.moment == MOMENT_CODE["step"])
    begin = legs.rows["values"][at, value_column("step", "begin")]
    tokens = legs.rows["values"][at, value_column("step", "tokens")]
    at, begin = at[(begin != UNKNOWN) & (tokens != 0)], begin[(begin != UNKNOWN) & (tokens != 0)]
    steps = np.empty(len(at), _STEP)
    steps["key"] = (legs.engine[legs.leg[at]].astype(np.int64) << 40) + legs.rows["step"][at]
    steps["begin"], steps["end"] = begin, legs.rows["t"][at]
    steps = steps[np.lexsort((steps["begin"], steps["key"]))]
    first = np.concatenate((np.ones(min(1, len(at)), bool), steps["key"][1:] != steps["key"][:-1]))
    return np.asarray(steps[first])


def _disjoint(pieces: np.ndarray) -> np.ndarray:
    """Where two pieces of one edge overlap, the one that began first keeps what they share."""
    group = pieces[["row", "walk", "node"]]
    same = np.concatenate((np.zeros(min(1, len(pieces)), bool), group[1:] == group[:-1]))
    overlaps = same[1:] & (pieces["begin"][1:] < pieces["end"][:-1])
    for index in np.flatnonzero(same).tolist() if overlaps.any() else ():
        pieces["begin"][index] = max(pieces["begin"][index], pieces["end"][index - 1])
        pieces["end"][index] = max(pieces["end"][index], pieces["begin"][index])
    return pieces[pieces["begin"] < pieces["end"]]


def _cut(pieces: np.ndarray, walks: tuple[Walk, ...]) -> None:
    whole = {NODE[edge.to]: STAGE_INDEX[edge.stage] for edge in EDGES if edge.less}
    base = np.zeros(max(whole) + 1, np.int64)
    base[list(whole)] = list(whole.values())
    ns = pieces["end"] - pieces["begin"]
    for number, walk in enumerate(walks):
        mine = pieces["walk"] == number
        rows = pieces["row"][mine]
        np.subtract.at(walk.stages, (base[pieces["node"][mine]], rows), ns[mine])
        np.add.at(walk.stages, (pieces["stage"][mine].astype(np.int64), rows), ns[mine])

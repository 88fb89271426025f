"""The stages of many requests as they lie in time, and how far each leg of them reaches."""

from __future__ import annotations

import numpy as np

from kvscope.model.graph import ALL_NODES, NODES, STAGE_OF
from kvscope.model.shapes import SHAPE_CODE
from kvscope.model.splits import Splits
from kvscope.probe.vocabulary import LEG_CODE, UNKNOWN

# A stage of a request: `row` of the Splits; `walk` is 0 on the path, 1 and 2 in the hidden registration and staging
# branch; `node` is the moment that ended it, `leg` where that lies, `step` the engine step that ran then (0: none).
PIECE = np.dtype(
    [
        *(("row", "i8"), ("walk", "u1"), ("stage", "u1"), ("node", "u1"), ("leg", "u1"), ("step", "u4")),
        *(("begin", "i8"), ("end", "i8")),
    ]
)
WALKS = 3
NEVER = np.iinfo(np.int64).max
PREFILL, DECODE, ROUTER = (LEG_CODE[name] for name in ("prefill", "decode", "router"))
LEGS = (PREFILL, DECODE, ROUTER)
"""Legs of a request, in the order of `reaches`."""


def pieces(splits: Splits) -> np.ndarray:
    """shape (k,), dtype PIECE: every stage that took time, by row, walk and time. Those on the path are gapless."""
    leg = _legs(splits)
    found = [_cut(splits, _edges(splits, walk, leg), walk) for walk in range(WALKS)]
    every = np.concatenate(found)
    every = every[every["end"] > every["begin"]]
    return every[np.lexsort((every["end"], every["begin"], every["walk"], every["row"]))]


def reaches(splits: Splits) -> np.ndarray:
    """(n, LEGS, 2) i8: the first and the last moment stamped on each leg, UNKNOWN where none was."""
    leg = _legs(splits)
    stamped = np.array([bool(node.moment) for node in ALL_NODES]) & (splits.time != UNKNOWN)
    reach = np.full((len(splits), len(LEGS), 2), UNKNOWN)
    for index, code in enumerate(LEGS):
        mine = stamped & (leg == code)
        there = mine.any(axis=1)
        reach[there, index, 0] = np.where(mine, splits.time, NEVER).min(axis=1)[there]
        reach[there, index, 1] = np.where(mine, splits.time, UNKNOWN).max(axis=1)[there]
    return reach


def _legs(splits: Splits) -> np.ndarray:
    """(n, ALL_NODES) u1 leg code of each moment: who posts differs from request to request."""
    pull = np.isin(splits.shape, [SHAPE_CODE[name] for name in ("pull", "return_read")])
    return np.asarray(np.where(pull[:, None], _LEG_IN_PULL, _LEG_IN_PUSH))


def _leg_of(node: int, poster: int) -> int:
    leg = ALL_NODES[node].leg
    if leg == "none":
        return PREFILL if ALL_NODES[node].name.startswith("P.") else DECODE
    return poster if leg == "poster" else LEG_CODE[leg]


_LEG_IN_PUSH, _LEG_IN_PULL = (
    np.array([_leg_of(node, poster) for node in range(len(ALL_NODES))], np.uint8) for poster in (PREFILL, DECODE)
)


def _edges(splits: Splits, walk: int, leg: np.ndarray) -> np.ndarray:
    """shape (k,), dtype PIECE: the edges of one walk of all rows, uncut."""
    mask = splits.walks[:, walk]
    # A moment that lies after the one that depends on it counts as being at that one.
    times = np.where(mask, splits.time[:, : len(NODES)], NEVER)
    times = np.minimum.accumulate(times[:, ::-1], axis=1)[:, ::-1]
    row, node = np.nonzero(mask)
    same = row[1:] == row[:-1]
    row, frm, to = row[1:][same], node[:-1][same], node[1:][same]
    edges = np.zeros(len(row), PIECE)
    edges["row"], edges["walk"], edges["node"] = row, walk, to
    edges["stage"], edges["leg"], edges["step"] = STAGE_OF[to, frm], leg[row, to], splits.step[row, to]
    edges["begin"], edges["end"] = times[row, frm], times[row, to]
    return edges


def _cut(splits: Splits, edges: np.ndarray, walk: int) -> np.ndarray:
    """The same, with the stages cut out that ran inside of others."""
    carves = splits.carves[splits.carves["walk"] == walk]
    if not len(carves):
        return edges
    at = {
        (int(row), int(node)): index for index, (row, node) in enumerate(zip(edges["row"], edges["node"], strict=True))
    }
    cut: dict[int, list[np.void]] = {}
    for carve in carves:
        index = at.get((int(carve["row"]), int(carve["node"])))
        if index is not None:
            cut.setdefault(index, []).append(carve)
    parts = [_apart(edges[index], found) for index, found in cut.items()]
    return np.concatenate((np.delete(edges, list(cut)), *parts))


def _apart(edge: np.void, carves: list[np.void]) -> np.ndarray:
    """One edge as the stretches between the stages cut out of it, and those."""
    parts = np.repeat(np.array([edge], PIECE), 2 * len(carves) + 1)
    for index, carve in enumerate(carves):
        inside = parts[2 * index + 1]
        inside["stage"], inside["begin"], inside["end"] = carve["stage"], carve["begin"], carve["end"]
        parts["end"][2 * index] = carve["begin"]
        parts["begin"][2 * index + 2] = carve["end"]
    return parts

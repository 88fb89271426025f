"""The walk back from the first token: at each moment to the predecessor that was last.

A path is a mask over the graph's nodes, so that all requests walk at once, one node at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvscope.core.classify import Classes
from kvscope.core.columns import Columns
from kvscope.model import graph
from kvscope.model.graph import NODE, NODES, ORIGIN, STAGE_OF
from kvscope.model.shapes import SHAPE_CODE
from kvscope.model.stages import STAGES
from kvscope.probe.vocabulary import UNKNOWN

# No violation: what is stamped when a call returned, while what follows may have begun inside the call; and the origin,
# which is the earliest arrival that is known, and lies late where the first ones are not.
_LATE_STAMP = np.isin(np.arange(len(NODES)), (ORIGIN, NODE["posted"], NODE["P.posted"]))
_NUMBERS = np.arange(len(NODES), dtype=np.int8)[:, None]
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Masks:
    """Which nodes each request's walks visit; (NODES, n) bool each."""

    path: np.ndarray
    registration: np.ndarray
    """Hidden branch with the node it forks from; empty where it is the path."""
    staging: np.ndarray
    through_registration: np.ndarray
    """(n,) bool"""


@dataclass(frozen=True)
class Walk:
    """What a walk crossed."""

    stages: np.ndarray
    """(stages, n) i8 ns"""
    begin: np.ndarray
    """(NODES, n) where the edge that ends at the node begins; UNKNOWN where the walk has no such edge"""
    end: np.ndarray
    """(NODES, n) the node's time, never after what depends on it"""
    violations: np.ndarray
    """(n,) moments that lay after one that depends on them"""


def masks(columns: Columns, classes: Classes) -> Masks:
    """Choose the path of each request, and what was hidden behind it; neither where clocks do not compare."""
    time = columns.time[: len(NODES)]
    seen = time != UNKNOWN
    through = _through_registration(columns) & classes.push
    knew, failed = classes.knew == 1, columns.has("failed") & classes.recompute
    early = classes.push & through | ~classes.push & seen[NODE["D.arrived"]]
    path = np.zeros_like(seen)
    _visit(path, (ORIGIN,), np.ones(len(through), bool))
    _visit(path, graph.PREFILL, ~early | knew)
    _visit(path, graph.STAGING, classes.push & ~through)
    _visit(path, graph.DECODE_FRONT, early)
    _visit(path, graph.REGISTRATION, classes.push & through)
    _visit(path, graph.WRITE, classes.push)
    _visit(path, graph.READ, classes.pull | columns.has("ready") & ~classes.push)
    _visit(path, graph.DECODE, seen[NODE["D.arrived"]] | seen[NODE["D.scheduled"]] | seen[NODE["first_token"]])
    _visit(path, graph.RECOMPUTE, failed)
    path[: NODE["failed"]] &= ~failed | (time[: NODE["failed"]] <= time[NODE["failed"]])
    path[list(graph.RETURN_READ)] &= classes.shape == SHAPE_CODE["return_read"]
    path &= seen
    branches = [_hidden(branch, path, seen, knew, classes) for branch in (graph.REGISTRATION, graph.STAGING)]
    aligned = ~columns.joined.unaligned
    return Masks(path & aligned, branches[0] & aligned, branches[1] & aligned, through)


def _visit(path: np.ndarray, nodes: tuple[int, ...], rows: np.ndarray) -> None:
    path[list(nodes)] |= rows


def _through_registration(columns: Columns) -> np.ndarray:
    """(n,) The registration was the last to come: sent after `staged`, or the writer looked after `staged` in vain."""
    staged, sent, received = columns.t("staged"), columns.t("registration_sent"), columns.t("registration_received")
    looked = columns.instant("registration_received", "looked")
    looked = np.where(looked < received, looked, UNKNOWN)
    blind = (sent == UNKNOWN) & (looked == UNKNOWN)
    late = (sent > staged) | (looked > staged) | (blind & (received > staged))
    return np.asarray((staged == UNKNOWN) | late)


def _hidden(
    branch: tuple[int, ...], path: np.ndarray, seen: np.ndarray, knew: np.ndarray, classes: Classes
) -> np.ndarray:
    """The nodes off the path that lead to the end of `branch`, and the node they fork from."""
    before = graph.DECODE_FRONT if branch is graph.REGISTRATION else graph.PREFILL
    hidden = np.zeros_like(path)
    _visit(hidden, before, np.ones(path.shape[1], bool))
    _visit(hidden, branch, classes.push | (branch is graph.STAGING))
    hidden[list(graph.RETURN_READ)] &= classes.shape == SHAPE_CODE["return_read"]
    hidden &= seen & ~path
    some = hidden.any(axis=0)
    computed = NODE["P.computed"]
    hidden[computed] |= some & knew & path[computed]
    hidden[ORIGIN] |= some & ~(knew & path[computed]) & seen[ORIGIN]
    return hidden


def walk(time: np.ndarray, mask: np.ndarray) -> Walk:
    """Cross the masked nodes from the last to the first; the stages crossed add up to last less first."""
    n = time.shape[1]
    stamped = np.where(mask, time, _NEVER)
    reached = _least_from(stamped)
    at, index, column, to = _crossed(mask)
    until = to * n + column
    t, now = reached.reshape(-1)[at], reached.reshape(-1)[until]
    stages = np.zeros((len(STAGES), n), np.int64)
    np.add.at(stages.reshape(-1), STAGE_OF[to, index].astype(np.int64) * n + column, now - t)
    begin = np.full((len(NODES), n), UNKNOWN)
    begin.reshape(-1)[until] = t
    torn = (stamped.reshape(-1)[at] > now) & ~_LATE_STAMP[index]
    return Walk(stages, begin, np.where(mask, reached, UNKNOWN), np.bincount(column[torn], minlength=n))


def _crossed(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(k,) each edge between masked nodes: index into the raveled mask, its node, its column, the node it leads to."""
    n = mask.shape[1]
    numbers = np.where(mask, _NUMBERS, len(NODES))
    following = np.concatenate((_least_from(numbers)[1:], np.full((1, n), len(NODES), np.int8)))
    at = np.flatnonzero(mask & (following < len(NODES)))  # row by row: node * n + column
    index, column = np.divmod(at, n)
    return at, index, column, following.reshape(-1)[at].astype(np.int64)


def between_clocks(time: np.ndarray, seat: np.ndarray, *paths: np.ndarray) -> np.ndarray:
    """(n,) u4 bit i: on some path stage i has an edge between two clocks; seat: (ALL_NODES, n) as of `Moved`"""
    found = np.zeros(seat.shape[1], np.uint32)
    for mask in paths:
        _, index, column, to = _crossed(mask)
        reached = _reached_by(time, seat, mask)
        apart = reached[index, column] != reached[to, column]
        stage = STAGE_OF[to, index][apart].astype(np.uint32)
        np.bitwise_or.at(found, column[apart], np.uint32(1) << stage)
    return found


def _reached_by(time: np.ndarray, seat: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """(NODES, n) whose clock says when each node was reached: its own, or that of what depends on it and was before."""
    found, least = seat[: len(NODES)].copy(), np.full(seat.shape[1], _NEVER)
    last = found[-1]
    for node in reversed(range(len(NODES))):
        own = mask[node] & (time[node] < least)
        least, last = np.where(own, time[node], least), np.where(own, found[node], last)
        found[node] = np.where(mask[node], last, found[node])
    return found


def _least_from(values: np.ndarray) -> np.ndarray:
    """(NODES, n) the least of each node's value and those of the nodes after it."""
    return np.asarray(np.minimum.accumulate(values[::-1], axis=0)[::-1])


def slacks(columns: Columns, through: np.ndarray, classes: Classes) -> np.ndarray:
    """(branches, 2, n) how much later a hidden branch could have ended: low, high; UNKNOWN where it is the path."""
    staged, sent, received = columns.t("staged"), columns.t("registration_sent"), columns.t("registration_received")
    looked = columns.instant("registration_received", "looked")
    slack = np.full((len(graph.BRANCHES), 2, len(columns)), UNKNOWN)
    both = classes.push & (staged != UNKNOWN) & (received != UNKNOWN) & ~columns.joined.unaligned
    early, late = both & ~through, both & through
    # Where clocks disagree, it can seem received before it was sent: the bounds are bounds all the same.
    slack[0, 0, early] = np.maximum(staged - np.maximum(received, sent), 0)[early]
    slack[0, 1, early] = np.maximum(staged - np.maximum(sent, looked), 0)[early]
    slack[1, :, late] = np.maximum(received - staged, 0)[late, None]
    return slack

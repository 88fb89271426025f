"""Blocks that were held and could do nothing: how many, how long, and what share of their engines that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kvscope.analysis.bands import percentile_of
from kvscope.analysis.condition import seconds_seen
from kvscope.model.graph import NODE
from kvscope.model.requests import State
from kvscope.model.splits import Splits
from kvscope.probe.vocabulary import UNKNOWN


@dataclass(frozen=True)
class Held:
    """What some requests held."""

    requests: int
    p50_ns: float | None
    """median time held of those that were let go"""
    block_s: float | None
    """block-seconds of all; None where no request told its blocks"""
    still: int
    """of the requests, those that hold theirs at the end: counted up to there"""
    capacity: float | None
    """share of the engines' block-seconds in the time seen; None where an engine has not told its KV blocks"""
    engines: int
    """engines that held them"""

    @property
    def equivalents(self) -> float | None:
        """How many whole engines that is."""
        return None if self.capacity is None else self.capacity * self.engines


@dataclass(frozen=True)
class Side:
    """Whose blocks, held from when on: names of columns of the splits."""

    since: str
    """node of the graph"""
    ns: str
    blocks: str
    engine: str


RESERVED = Side("D.reserved", "reserved_idle", "reserved_blocks", "decode_engine")
"""The decode engines' blocks, from `reserved` to `transferred`."""
PINNED = Side("P.computed", "pinned", "pinned_blocks", "prefill_engine")
"""The prefill engines' blocks, from `computed` to `released`."""


@dataclass(frozen=True)
class _Holdings:
    """n requests that held blocks."""

    engine: np.ndarray
    """(n,) index into the splits' engines, -1 not known"""
    ns: np.ndarray
    """up to the end of the splits of those that hold theirs still"""
    still: np.ndarray
    blocks: np.ndarray

    def of(self, rows: np.ndarray) -> _Holdings:
        return _Holdings(self.engine[rows], self.ns[rows], self.still[rows], self.blocks[rows])


def gather_held(splits: Splits, side: Side, kv_blocks: Mapping[str, int]) -> Held:
    """Add up over all requests, whether complete or not. kv_blocks: engine -> its KV blocks, where told"""
    return _held(_holdings(splits, side), splits, kv_blocks)


def held_by_engine(splits: Splits, side: Side, kv_blocks: Mapping[str, int]) -> dict[str, Held]:
    """engine -> the same for its requests; block-seconds add up to those of all"""
    found = _holdings(splits, side)
    names = sorted({splits.engines[index].engine for index in np.unique(found.engine[found.engine >= 0]).tolist()})
    number = {name: at for at, name in enumerate(names)}
    where = np.array([*(number.get(engine.engine, -1) for engine in splits.engines), -1], int)[found.engine]
    order = np.argsort(where, kind="stable")
    edges = np.searchsorted(where[order], np.arange(len(names) + 1))
    pieces = {name: order[edges[at] : edges[at + 1]] for name, at in number.items()}
    return {name: _held(found.of(rows), splits, kv_blocks) for name, rows in pieces.items()}


def _holdings(splits: Splits, side: Side) -> _Holdings:
    begun, ns = splits.time[:, NODE[side.since]], getattr(splits, side.ns)
    still = (ns == UNKNOWN) & (begun != UNKNOWN) & splits.in_state(State.UNFINISHED) & ~splits.marked("unaligned")
    rows = np.flatnonzero(still | (ns != UNKNOWN))
    length = np.where(still, splits.now - splits.behind - begun, ns)
    return _Holdings(getattr(splits, side.engine)[rows], length[rows], still[rows], getattr(splits, side.blocks)[rows])


def _held(found: _Holdings, splits: Splits, kv_blocks: Mapping[str, int]) -> Held:
    told = found.blocks != UNKNOWN
    area = float((found.ns[told] / 1e9 * found.blocks[told]).sum()) if told.any() else None
    engines = {splits.engines[index].engine for index in np.unique(found.engine[found.engine >= 0]).tolist()}
    room = sum(kv_blocks[engine] for engine in engines) if engines and engines <= kv_blocks.keys() else 0
    seconds = seconds_seen(splits)
    gone = found.ns[~found.still]
    return Held(
        requests=len(found.ns),
        p50_ns=percentile_of(gone, 50) if len(gone) else None,
        block_s=area,
        still=int(found.still.sum()),
        capacity=area / (room * seconds) if area is not None and room and seconds else None,
        engines=len(engines),
    )

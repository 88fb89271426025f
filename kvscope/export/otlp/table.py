"""Requests that are over, one by one, as far as their spans need them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from kvscope.export.otlp.attributes import attributes_of, failures
from kvscope.export.pieces import DECODE, LEGS, PREFILL, pieces, reaches
from kvscope.model.events import Process
from kvscope.model.graph import NODE
from kvscope.model.shapes import SHAPE_CODE
from kvscope.model.splits import MARKS, Splits, text_of
from kvscope.probe.vocabulary import UNKNOWN

NONE = -1
_FINISHED = {DECODE: NODE["D.finished"], PREFILL: NODE["P.finished"]}
_SHARED = 1 << MARKS.index("shared_prefill")
_UNALIGNED = 1 << MARKS.index("unaligned")


@dataclass(frozen=True, slots=True)
class Request:
    """A row of Splits, as far as its spans need it."""

    text: str
    peer: str
    keys: dict[int, int]
    """leg -> key of its id"""
    engines: dict[int, Process]
    """Leg that was seen -> where it ran; decode or prefill, at least one."""
    reach: dict[int, tuple[int, int]]
    """Leg that was seen -> its first and last moment."""
    origin: int
    ended: int
    """When it ended, UNKNOWN where that was not seen."""
    unaligned: bool
    shared: tuple[int, int] | None
    """What tells its prefill leg, where others share it."""
    failure: str
    failed: bool
    """It ended by a failure."""
    times: list[int]
    """of ALL_NODES"""
    pieces: list[tuple[int, ...]]
    """(walk, stage, node, leg, step, begin, end) of each stage"""
    attributes: list[KeyValue]

    @property
    def main(self) -> int:
        """The leg that the root is told of: decode, where it was seen."""
        return max(self.engines)


class Table:
    """The columns of many requests as lists: asking arrays one by one is slow."""

    def __init__(self, splits: Splits) -> None:
        self._splits = splits
        found = pieces(splits)
        self._at = np.searchsorted(found["row"], np.arange(len(splits) + 1)).tolist()
        names = ("walk", "stage", "node", "leg", "step", "begin", "end")
        self._pieces = list(zip(*(found[name].tolist() for name in names), strict=True))
        self._reach, self._time = reaches(splits).tolist(), splits.time.tolist()
        self._keys = list(zip(splits.request.tolist(), splits.peer_request.tolist(), strict=True))
        self._seats = list(zip(splits.prefill_engine.tolist(), splits.decode_engine.tolist(), strict=True))
        self._attributes, self._failures = attributes_of(splits), list(failures(splits))
        self._origin, self._marks = splits.origin.tolist(), splits.marks.tolist()
        self._failed = (splits.shape == SHAPE_CODE["failed"]).tolist()

    def request(self, row: int) -> Request:
        """One of them."""
        engines = self._engines(row)
        request, peer = self._keys[row]
        texts = self._splits.texts
        prefill = peer or request
        marks = self._marks[row]
        return Request(
            text=text_of(texts, request),
            peer=text_of(texts, peer),
            keys={leg: request if leg == DECODE else prefill for leg in engines},
            engines=engines,
            reach=self._reaches(row),
            origin=self._origin[row],
            ended=self._time[row][_FINISHED[max(engines)]] if engines else UNKNOWN,
            unaligned=bool(marks & _UNALIGNED),
            shared=(prefill, self._seats[row][0]) if marks & _SHARED else None,
            failure=str(self._failures[row] or ""),
            failed=self._failed[row],
            times=self._time[row],
            pieces=self._pieces[self._at[row] : self._at[row + 1]],
            attributes=self._attributes[row],
        )

    def _engines(self, row: int) -> dict[int, Process]:
        engines, seats = self._splits.engines, self._seats[row]
        seen = self._reaches(row)
        return {leg: engines[seat] for leg, seat in zip(LEGS, seats, strict=False) if seat != NONE and leg in seen}

    def _reaches(self, row: int) -> dict[int, tuple[int, int]]:
        told = zip(LEGS, self._reach[row], strict=True)
        return {leg: (first, last) for leg, (first, last) in told if first != UNKNOWN}

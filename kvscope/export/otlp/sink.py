"""The sink of `kvscope export --otlp`: spans of finished requests, to a collector or into a file."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from kvscope.export.otlp.batch import Gathered
from kvscope.export.otlp.contexts import Contexts
from kvscope.export.otlp.trees import Trees
from kvscope.export.passage import Part
from kvscope.model.counting import count
from kvscope.model.errors import InputError
from kvscope.model.splits import Splits
from kvscope.model.wallclock import WallClock

SPANS = 2_000
"""Spans of a batch, at least: some 700 KB. Collectors take 4 MiB and more."""
REQUESTS = 64
"""Whose spans are made at a time."""


class Carrier(Protocol):
    """What takes spans away."""

    name: str
    """The place, for a person."""

    @property
    def rejected(self) -> int:
        """Spans that arrived there and were thrown away."""

    def carry(self, message: ExportTraceServiceRequest) -> None:
        """InputError, OSError: it cannot."""

    def finish(self) -> str:
        """Complete it. Returns what there is to say beside the numbers, or nothing."""

    def abandon(self) -> None:
        """It ended early."""


class OtlpSink:
    """Gathers spans, and has them carried away batch by batch."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._clock, self._contexts = WallClock(), Contexts()
        self._trees, self._gathered = Trees(self._clock, self._contexts), Gathered()
        self._arrived = 0

    @property
    def rejected(self) -> int:
        """Spans that arrived and were thrown away."""
        return self._carrier.rejected

    def take(self, part: Part) -> None:
        """As `Sink` has it."""
        self._clock.take(part.events)
        self._contexts.take(part.events)
        for splits in part.over:
            self._add(splits)

    def finish(self) -> str:
        """As `Sink` has it."""
        self._carry()
        trees = self._trees
        if trees.timeless and not trees.requests:
            raise InputError(
                "nothing tells the time of day of these moments, which spans need: a shared recording does if it was"
                " made with `kvscope share --keep-time`, JSON lines do if `arrived` has `wall_ns`"
            )
        if trees.impossible and not trees.requests:
            raise InputError(
                "by what was told of the time of day (`wall_ns`), these moments were before 1970 or after 2262, which"
                " no span can be; correct it where it is told"
            )
        more = self._carrier.finish()
        told = f"{count(self._arrived, 'span')} of {count(trees.requests, 'request')} {self._carrier.name}"
        if trees.joined:
            told += f", {trees.joined:,} of them in traces of their callers"
        if trees.timeless:
            told += f"; {count(trees.timeless, 'request')} left out: nothing tells the time of day of their moments"
        if trees.impossible:
            told += f"; {count(trees.impossible, 'request')} left out: told to have been before 1970 or after 2262"
        return told + (f"; {more}" if more else "")

    def abandon(self) -> None:
        """As `Sink` has it."""
        self._carrier.abandon()

    def _add(self, splits: Splits) -> None:
        for begin in range(0, len(splits), REQUESTS):
            chosen = np.arange(begin, min(begin + REQUESTS, len(splits)))
            self._trees.grow(splits.select(chosen), self._gathered)
            if len(self._gathered) >= SPANS:
                self._carry()

    def _carry(self) -> None:
        spans = len(self._gathered)
        if not spans:
            return
        try:
            self._carrier.carry(self._gathered.taken())
        except InputError as error:
            raise InputError(f"{error}; {count(self._arrived, 'span')} had arrived before") from None
        self._arrived += spans

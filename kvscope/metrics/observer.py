"""Whoever is told what the loop reads, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from kvscope.live.feed import Batch
from kvscope.model.splits import Splits
from kvscope.sources.records import Rows
from kvscope.sources.rings import RingReading, Told


class Observer(Protocol):
    """It keeps nobody waiting, and raises nothing."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Of its own: a kind of `kvscope_incidents_total` -> how many there were."""

    @property
    def savable(self) -> bool:
        """Whether an incident could be saved now, as far as is known."""

    def add(self, process: int, records: Rows, texts: Told) -> None:
        """What a process wrote since it was read last."""

    def look(self, readings: Sequence[RingReading], now: int) -> None:
        """All that was new by `now` was added."""

    def observe(self, batch: Batch, over: Sequence[Splits], answered: Splits, waiting: Splits) -> None:
        """As `Stream.advance` gives them."""

"""A ledger fed as the reading loop feeds it, and what its page says."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from kvscope.analysis.objectives import Objectives
from kvscope.core.stream import SECOND
from kvscope.live.feed import Batch
from kvscope.metrics.exposition import Exporter
from kvscope.metrics.reading import Reading
from kvscope.model.events import Events, Process
from kvscope.probe.vocabulary import UNKNOWN

from ..core.scene import events_of

Items = list[dict[str, Any]]
WALL_NS = 1_700_000_000 * SECOND
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
LINE = re.compile(r"^(kvscope_[a-z_]+)(?:\{(.*)\})? (\S+)$", re.M)
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


class Reader:
    """Takes batches of events one after the other; says what is scraped after them."""

    def __init__(self, objectives: Objectives | None = None, since: int = UNKNOWN) -> None:
        self._batch = Batch(events_of([]), 0, WALL_NS)
        self._reading = Reading(lambda: self._batch, objectives, since)
        self.exporter = Exporter(self._reading.told)
        self._scraped: dict[str, float] = {}

    def take(self, events: Events, now_s: float) -> None:
        """A batch that was read at `now_s`."""
        self._batch = Batch(events, round(now_s * SECOND), WALL_NS)
        self._reading.step()
        self._scraped.clear()

    def items(
        self, items: Iterable[dict[str, Any]], now_s: float, processes: tuple[Process, ...] | None = None
    ) -> None:
        """The same of moments; `processes` instead of those that they name, in the same order."""
        found = events_of(items)
        self.take(Events(found.rows, processes or found.processes, found.texts), now_s)

    def quiet(self, now_s: float, processes: tuple[Process, ...] = ()) -> None:
        """Nothing came; what settles by `now_s` does."""
        self.take(Events(events_of([]).rows, processes, {}), now_s)

    def scrape(self) -> dict[str, float]:
        """`name{label=value,..}` -> value, of kvscope's own series."""
        if not self._scraped:
            for name, labels, value in LINE.findall(self.exporter.page("").body.decode()):
                series = ",".join(f"{key}={text}" for key, text in sorted(LABEL.findall(labels)))
                self._scraped[f"{name}{{{series}}}"] = float(value)
        return dict(self._scraped)

    def total(self, name: str, **labels: str) -> float:
        """Sum over all series of a name that have these labels."""
        wanted = {f"{key}={value}" for key, value in labels.items()}
        return sum(
            value
            for series, value in self.scrape().items()
            if series.partition("{")[0] == name and wanted <= set(series.partition("{")[2][:-1].split(","))
        )

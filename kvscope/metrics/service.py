"""Reading and telling together: what a server gives to Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from kvscope.analysis.objectives import Objectives
from kvscope.live.feed import Batch
from kvscope.metrics.exposition import Exporter, Page
from kvscope.metrics.observer import Observer
from kvscope.metrics.reading import HostRings, Reading
from kvscope.probe.vocabulary import UNKNOWN


class Service:
    """Metrics of the rings in a run directory, from now on. A context manager."""

    def __init__(
        self,
        run_dir: Path,
        objectives: Objectives | None = None,
        certified_until: datetime | None = None,
        observer: Observer | None = None,
        poll: Callable[[], Batch] | None = None,
    ) -> None:
        """poll: what is read in place of the rings, of several hosts, each with its clock: what it has at first was
        counted before."""
        since = UNKNOWN if poll else time.monotonic_ns()
        self._reading = Reading(poll or HostRings(run_dir, observer), objectives, since, observer)
        if poll:
            self._reading.recall()
        if certified_until is not None:
            self._reading.certify(certified_until)
        self._exporter = Exporter(self._reading.told)

    def __enter__(self) -> Service:
        self._reading.__enter__()
        return self

    def __exit__(self, *reason: object) -> None:
        self._reading.__exit__(*reason)

    @property
    def fault(self) -> str:
        """What keeps it from reading; empty while it reads."""
        return self._reading.fault

    def page(self, accept: str, accept_encoding: str) -> Page:
        """By the headers of who asks."""
        return self._exporter.page(accept, accept_encoding)

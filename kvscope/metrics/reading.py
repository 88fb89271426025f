"""The loop that reads events and adds them up, in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from pathlib import Path

from kvscope.analysis.objectives import Objectives
from kvscope.core.hosts import Hosts
from kvscope.core.stream import SECOND, Limits, Stream
from kvscope.live.collector import strides
from kvscope.live.feed import Batch, Fleeting
from kvscope.metrics.ledger import Ledger
from kvscope.metrics.observer import Observer
from kvscope.metrics.telling import Told
from kvscope.model.errors import InputError
from kvscope.model.requests import Tally
from kvscope.model.splits import Splits
from kvscope.probe.vocabulary import UNKNOWN
from kvscope.sources.rings import Rings, reading_ahead

INTERVAL_S = 0.5
"""Between two looks at what was read."""
MOST_RECALLED = 100
"""Polls of what was there before: one that is written meanwhile is not read for ever."""
LOOK_NS = 2 * SECOND
"""How old gauges of requests under way may be."""


class HostRings:
    """What polls the rings of this host. InputError: the directory cannot be read."""

    def __init__(self, run_dir: Path, observer: Observer | None = None) -> None:
        self._rings, self._observer = Rings(run_dir), observer

    def __call__(self) -> Batch:
        """What is new."""
        events = self._rings.poll(self._observer.add if self._observer else None)
        now = time.monotonic_ns()
        if self._observer:
            self._observer.look(self._rings.readings, now)
        return Batch(events, now, time.time_ns() - now, faults=self._rings.faults)

    def ahead(self) -> AbstractContextManager[None]:
        """Within, what comes between two polls is read in time."""
        return reading_ahead(self._rings)


class Reading:
    """Polls a source and keeps a ledger. A context manager: its thread runs within."""

    def __init__(
        self,
        poll: Callable[[], Batch],
        objectives: Objectives | None = None,
        since: int = UNKNOWN,
        observer: Observer | None = None,
    ) -> None:
        self._poll, self._observer = poll, observer
        self._stream, self._tally = Stream(Limits(), Hosts()), Tally()
        self._ledger, self._lock = Ledger(objectives, since), threading.Lock()
        self._looked = UNKNOWN
        self._fault, self._refused = "", 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kvscope-metrics")

    def __enter__(self) -> Reading:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def fault(self) -> str:
        """What keeps it from reading; empty while it reads."""
        if self._thread.ident is not None and not self._thread.is_alive() and not self._stop.is_set():
            return "the thread that reads events has ended"
        return self._fault

    def told(self) -> Told:
        """All that is counted, as of the last look."""
        with self._lock:
            self._ledger.read(not self.fault, self._refused)
            if self._observer:
                self._ledger.incidents(self._observer.counts, self._observer.savable)
            return self._ledger.told()

    def certify(self, until: datetime) -> None:
        """Tell when the certificate ends that this is served with."""
        with self._lock:
            table = self._ledger.store.table("tls_certificate_expiry_timestamp_seconds")
            table.set(0, 0, until.timestamp() * SECOND)

    def recall(self) -> None:
        """Read what there is and count nothing of it: whoever read then has. What is under way goes on."""
        for _ in range(MOST_RECALLED):
            batch = self._poll()
            self._stream.hosts = self._stream.hosts.hearing(batch.exchanges)
            for events, now in strides(batch.events, batch.now):  # as it came: so what is over is given out
                self._stream.feed(events, now)
            self._ledger.recall(batch.events.processes)
            if not len(batch.events):
                break
        self._tally = self._stream.tally

    def step(self) -> None:
        """Read what is new and add it up."""
        begun = time.thread_time_ns()
        try:
            batch = self._poll()
        except InputError as error:  # the directory may come back
            self._fault = str(error)
            return
        self._fault, self._refused = "", len(batch.faults)
        if batch.restart:
            self._stream, self._tally = Stream(Limits(), Hosts()), Tally()
        self._stream.hosts = self._stream.hosts.hearing(batch.exchanges)
        over, answered, waiting = self._split(batch)
        read = time.thread_time_ns()
        with self._lock:
            self._ledger.take(self._stream.hosts.moved(batch.events), over, batch.now, batch.wall_ns or 0)
            self._ledger.count(self._stream.tally - self._tally)
            if waiting is not None and batch.now - self._looked >= LOOK_NS:
                self._ledger.look(waiting, batch.now)
                self._looked = batch.now
            self._ledger.spend(read - begun, time.thread_time_ns() - read)
        self._tally = self._stream.tally
        if self._observer and answered is not None and waiting is not None:
            self._observer.observe(batch, over, answered, waiting)

    def _split(self, batch: Batch) -> tuple[list[Splits], Splits | None, Splits | None]:
        """As `Stream.advance`; the last two only where somebody looks at them."""
        if self._observer or batch.restart or batch.now - self._looked >= LOOK_NS:
            return self._stream.advance(batch.events, batch.now)
        return self._stream.feed(batch.events, batch.now), None, None

    def _run(self) -> None:
        with self._poll.ahead() if isinstance(self._poll, Fleeting) else nullcontext():
            while not self._stop.is_set():
                self.step()
                self._stop.wait(INTERVAL_S)
        if self._observer:
            self.step()  # it keeps what was recorded to the end

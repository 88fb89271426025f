"""One host's rings, read, cut into batches, kept and sent. Standard library only.

Reading never waits for sending: what cannot be sent lies in the spool. A batch is in the spool before it is sent, and
an agent that is started anew sends what lies there as it is and reads on from where the last one came to. One that
finds no spool asks the aggregator how far the rings have been read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kvscope.agents.batch import MOST_RECORDS, Batcher
from kvscope.agents.sending import Asking, Sender
from kvscope.agents.spool import Spool
from kvscope.agents.transport import Transport
from kvscope.model.errors import InputError
from kvscope.probe.heading import new_recording
from kvscope.probe.hiding import hiding
from kvscope.probe.ids import Ids
from kvscope.probe.reader import RingError, list_rings, ring_paths
from kvscope.probe.ring import default_run_dir
from kvscope.probe.tap import Progress, Tap
from kvscope.sources.run_dirs import OURS

INTERVAL_S = 0.25
"""Between two looks at the rings."""
EVERY_S = 1.0
"""A batch is cut so long after the last; sooner when it is full."""
FIRST_S = 2.0
"""How long the aggregator may take to say what it knows, before rings are read without."""
LOOK_S = 5.0
"""Between two looks for run directories."""


@dataclass(frozen=True)
class Plan:
    """What an agent is to do."""

    run_dirs: tuple[Path, ...] = ()
    """those, and"""
    parents: tuple[Path, ...] = ()
    """folders whose folders are run directories; with neither, all of this host that are kvscope's own"""
    name: str = ""
    interval_s: float = INTERVAL_S
    ids: Ids | None = None


@dataclass(frozen=True)
class Done:
    """How far it has come."""

    events: int
    lost: int
    taken: int
    """batches"""
    waiting: int
    dropped: int
    """batches that went for want of room"""
    refused: int
    living: int


class Agent:
    """Reads in the thread that runs it, sends in another."""

    def __init__(self, plan: Plan, spool: Spool, transport: Transport, say: Callable[[str], None]) -> None:
        self._plan, self._spool, self._say = plan, spool, say
        self._sender = Sender(spool, transport, plan.name, say)
        self._asking = Asking(self._named) if spool.empty else None
        self._seen, self._said = set[str](), set[str]()
        self._past = (0, 0)
        """(events, lost ones) of run directories that are gone"""
        self._begin(spool.rings)

    def _begin(self, rings: Progress) -> None:
        self._rings, self._begun = rings, bool(rings)
        self._batcher = Batcher(new_recording(), rings, self._plan.name)
        self._taps: dict[Path, Tap] = {}
        self._cut_at = self._look_at = 0.0

    def run(self, stop: threading.Event) -> Done:
        """Until it is to stop; what was read is kept and, where that works at once, sent."""
        ended = threading.Event()
        thread = threading.Thread(target=self._sender.run, args=(ended, self._asking), name="kvscope-send")
        thread.start()
        if self._asking:
            self._asking.heard.wait(FIRST_S)
        while True:
            last = stop.is_set()
            if self._asking and self._asking.heard.is_set():
                self._settle(self._asking)
            self._look(last)
            if last:
                break
            if not thread.is_alive():
                raise InputError(
                    "what sends batches has ended by a fault; start the agent again: what it kept is sent then"
                )
            stop.wait(self._plan.interval_s)
        ended.set()
        thread.join()
        return self.done

    def _settle(self, asking: Asking) -> None:
        """What was read without knowing how far it had been read before is read anew from there."""
        if asking.known:
            self._spool.forget()
            self._begin(asking.known)
        self._asking = None
        asking.settled.set()

    def _named(self) -> list[str]:
        """Ring files that were seen so far."""
        for run_dir in self._run_dirs():
            with suppress(RingError):
                self._seen.update(path.name for path in ring_paths(run_dir))
        return sorted(self._seen)

    @property
    def done(self) -> Done:
        """By now."""
        taps, sent = self._taps.values(), self._sender.sent
        events, lost = self._past
        counted = events + sum(tap.events for tap in taps), lost + sum(tap.lost for tap in taps)
        living = sum(tap.living for tap in taps)
        return Done(*counted, sent.taken, self._spool.waiting, self._spool.dropped_batches, sent.refused, living)

    def _look(self, last: bool) -> None:
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_S
            self._find()
        for tap in self._taps.values():
            try:
                tap.poll()
            except RingError as error:
                self._once(str(error))
            for fault in tap.faults:
                self._once(fault)
        held, age = self._batcher.held + sum(tap.held for tap in self._taps.values()), now - self._cut_at
        if last or age >= EVERY_S or held >= MOST_RECORDS:
            self._cut_at = now
            self._cut()

    def _cut(self) -> None:
        for tap in self._taps.values():
            tap.mark()
        if batches := self._batcher.cut():
            try:
                self._spool.add(batches)
            except OSError as error:
                self._once(f"batches cannot be kept: {(error.strerror or str(error)).lower()}; what is in them is lost")

    def _find(self) -> None:
        found = list(self._run_dirs())
        for gone in [path for path in self._taps if path not in found and not path.exists()]:
            if not self._taps[gone].living and not self._taps[gone].held:
                tap = self._taps.pop(gone)  # pods come and go, and each has one
                self._past = (self._past[0] + tap.events, self._past[1] + tap.lost)
        for run_dir in found:
            if run_dir not in self._taps:
                self._told_texts(run_dir)
                writer = hiding(self._batcher.side(), self._plan.ids)
                # Rings that come later than the first look were not there before it: they are read from their begin.
                since = self._rings if self._begun else None
                self._taps[run_dir] = Tap(run_dir, writer, hold_s=float("inf"), since=since)
        self._begun = True

    def _told_texts(self, run_dir: Path) -> None:
        """Texts that were told before the place from which rings are read on: their records may be still to come."""
        with suppress(RingError):
            for ring in list_rings(run_dir, []) if self._rings else ():
                for segment in ring.segments():
                    self._batcher.texts(segment.drain_texts(0)[0])

    def _run_dirs(self) -> Iterator[Path]:
        yield from self._plan.run_dirs
        for parent in self._plan.parents:
            yield from sorted(path for path in parent.glob("*") if path.is_dir())
        if not (self._plan.run_dirs or self._plan.parents):
            yield from sorted(path for path in default_run_dir().parent.glob(OURS) if path.is_dir())

    def _once(self, sentence: str) -> None:
        if sentence not in self._said and len(self._said) < 1000:
            self._said.add(sentence)
            self._say(f"kvscope: {sentence}")

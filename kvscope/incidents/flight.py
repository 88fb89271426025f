"""A flight recorder: keeps what is read, holds it to triggers, and saves incidents. No engine waits for it."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from kvscope.incidents.account import Cause, Span, cause_by_hand, cause_of
from kvscope.incidents.folder import Folder
from kvscope.incidents.judging import Judge
from kvscope.incidents.memory import SECOND, Memory
from kvscope.incidents.saving import Sample, Saving
from kvscope.incidents.triggers import Trigger
from kvscope.live.feed import Batch
from kvscope.model.splits import Splits
from kvscope.sources.records import Rows
from kvscope.sources.rings import RingReading, Told

BEFORE_S, AFTER_S, PAUSE_S = 60.0, 30.0, 600.0
OUTCOMES = ("saved", "joined", "suppressed", "failed")
"""What can become of a trigger that is set off: it begins an incident, falls into one, comes too soon after one. And of
an incident: it cannot be saved, or not whole."""


@dataclass(frozen=True)
class Plan:
    """What is saved, and how often."""

    triggers: tuple[Trigger, ...] = ()
    before_s: float = BEFORE_S
    after_s: float = AFTER_S
    pause_s: float = PAUSE_S
    """From one incident to the next that a trigger may begin. What people ask for is saved all the same."""


class Source(Protocol):
    """What reads."""

    @property
    def fault(self) -> str:
        """What keeps it from reading; empty while it reads."""


class Flight:
    """What is given to whoever reads rings: it is told what was read, and what came of it."""

    def __init__(
        self,
        memory: Memory,
        folder: Folder,
        plan: Plan,
        say: Callable[[str], None],
        sample: Sample | None = None,
    ) -> None:
        self._memory, self._folder, self._plan, self._say, self._sample = memory, folder, plan, say, sample
        self._judge = Judge(plan.triggers, time.monotonic_ns(), memory.text)
        self._asked = queue.SimpleQueue[str]()
        self._turn = threading.Lock()
        self._saving: list[Saving] = []
        self._quiet_until = 0
        self._suppressed = 0
        """Since the last incident."""
        self._counts: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))
        self._readings: Sequence[RingReading] = ()
        self._short = self._broken = False
        self.source: Source | None = None
        """What reads for it, where nobody else asks how it does."""

    @property
    def fault(self) -> str:
        """What keeps it from keeping anything; empty where nothing does."""
        return self.source.fault if self.source else ""

    @property
    def counts(self) -> Mapping[str, int]:
        """outcome -> how many times"""
        with self._turn:
            failing = sum(saving.failed for saving in self._saving)
            return {**self._counts, "failed": self._counts["failed"] + failing}

    @property
    def told(self) -> dict[str, Any]:
        """What there is to say of it."""
        return {"holds": asdict(self._memory.held), "incidents": self.counts, "folder": str(self._folder.path)}

    def add(self, process: int, records: Rows, texts: Told) -> None:
        """What a process wrote since it was read last."""
        self._memory.add(process, records, texts)

    def look(self, readings: Sequence[RingReading], now: int) -> None:
        """All that was new by `now` was added."""
        self._readings = readings
        self._memory.look(readings, now, awaited=any(not saving.over for saving in self._saving))
        self._say_if_short()

    def observe(self, batch: Batch, over: Sequence[Splits], answered: Splits, waiting: Splits) -> None:
        """What came of it."""
        causes = self._set_off(batch, over, answered, waiting)
        while not self._asked.empty():
            causes.append(cause_by_hand(self._asked.get(), "", batch.now))
        for cause in causes:
            self._take(cause)

    def _set_off(self, batch: Batch, over: Sequence[Splits], answered: Splits, waiting: Splits) -> list[Cause]:
        try:
            return [cause_of(fired) for fired in self._judge.judged(batch.events, over, answered, waiting, batch.now)]
        except Exception as error:  # noqa: BLE001 - whoever reads for it reads for others, too, and has to go on
            if not self._broken:
                self._broken = True
                told = " ".join(f"{type(error).__name__}: {error}".split())
                self._say(f"kvscope: triggers could not be judged, a fault of kvscope's own: {told}")
            return []

    def signalled(self, name: str) -> None:
        """A signal asks for an incident. May be called by a signal's handler: takes no lock."""
        self._asked.put(name)

    def ask(self, how: str, reason: str) -> dict[str, Any]:
        """Somebody asks for an incident; what becomes of it."""
        outcome, path = self._take(cause_by_hand(how, reason, time.monotonic_ns()))
        return {"outcome": outcome, "folder": path}

    def close(self) -> None:
        """Reading has ended: end what is being saved."""
        self._memory.seal(self._readings, time.monotonic_ns())
        for saving in self._saving:
            saving.close()
        self._folder.close()

    def _take(self, cause: Cause) -> tuple[str, str]:
        """(outcome, folder)"""
        with self._turn:
            outcome, path = self._judged(cause)
            self._counts[outcome] += 1
            return outcome, path

    def _judged(self, cause: Cause) -> tuple[str, str]:
        done = [saving for saving in self._saving if saving.over]
        self._saving = [saving for saving in self._saving if not saving.over]
        self._counts["failed"] += sum(saving.failed for saving in done)
        for saving in self._saving:
            if saving.take(cause):
                return "joined", str(saving.path)
        if not cause.by_hand and cause.at < self._quiet_until:
            self._suppressed += 1
            return "suppressed", ""
        if not cause.by_hand:
            self._quiet_until = cause.at + round(self._plan.pause_s * SECOND)
        return self._begin(cause)

    def _begin(self, cause: Cause) -> tuple[str, str]:
        plan = self._plan
        begin, end = cause.origin - round(plan.before_s * SECOND), cause.at + round(plan.after_s * SECOND)
        span = Span(plan.before_s, plan.after_s, begin, end)
        told = {"suppressed_before": self._suppressed}
        try:
            saving = Saving(cause, span, self._memory, self._folder, self._say, self._sample, **told)
        except OSError as error:
            self._say(f"kvscope: cannot save into {self._folder.path}: {(error.strerror or str(error)).lower()}")
            return "failed", ""
        self._suppressed = 0
        self._say(f"{saving.path}: {cause.text}; saving until {plan.after_s:g} s after")
        self._saving.append(saving)
        saving.start()
        return "saved", str(saving.path)

    def _say_if_short(self) -> None:
        """Once, that less is kept than was asked for."""
        held = self._memory.held
        if held.dropped and not self._short:
            self._short = True
            room = f"{held.size / 1e6:.0f} MB hold the last {held.seconds:.0f} s only"
            self._say(f"kvscope: {room}; give --keep-bytes more to keep all that --keep asks for")

"""A flight recorder: keeps what is read, holds it to triggers, and saves incidents. No engine waits for it."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from kvscope.incidents.account import Cause, Span, cause_by_hand, cause_of, utc
from kvscope.incidents.folder import Folder, reason_of
from kvscope.incidents.judging import Judge
from kvscope.incidents.memory import SECOND, Memory
from kvscope.incidents.saving import Sample, Saving
from kvscope.incidents.triggers import Trigger
from kvscope.incidents.watching import Watch
from kvscope.live.feed import Batch
from kvscope.model.errors import InputError
from kvscope.model.splits import Splits
from kvscope.probe.ids import Ids
from kvscope.sources.records import Rows
from kvscope.sources.rings import RingReading, Told

BEFORE_S, AFTER_S, PAUSE_S = 60.0, 30.0, 600.0
AGAIN_S = 10.0
"""From an incident that could not be saved to the next that a trigger may begin, as long as nothing has changed."""
BEGIN_S = 2.0
"""How long who asks for an incident waits to hear whether it can be saved."""
OUTCOMES = ("saved", "joined", "suppressed", "failed")
"""What can become of an incident: it is saved whole, or cannot be. And of a trigger that begins none: it falls into
one, or comes too soon after one."""


BEGUN = "begun"


@dataclass(frozen=True)
class Plan:
    """What is saved, and how often."""

    triggers: tuple[Trigger, ...] = ()
    before_s: float = BEFORE_S
    after_s: float = AFTER_S
    pause_s: float = PAUSE_S
    """From one incident to the next that a trigger may begin. What people ask for is saved all the same."""
    ids: Ids | None = None
    """How request ids are written; None: as they are."""


@dataclass(frozen=True)
class _Taken:
    """What became of a cause."""

    outcome: str
    saving: Saving | None = None
    reason: str = ""


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
        self._watch = Watch(folder, say)
        self._judge = Judge(plan.triggers, time.monotonic_ns(), memory.text)
        self._asked = queue.SimpleQueue[str]()
        self._turn = threading.Lock()
        self._saving: list[Saving] = []
        self._quiet_until = self._failed_at = 0
        self._suppressed = 0
        """Since the last incident."""
        self._counts: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))
        self._readings: Sequence[RingReading] = ()
        self._short = self._broken = False
        self.source: Source | None = None
        """What reads for it, where nobody else asks how it does."""

    @property
    def fault(self) -> str:
        """What keeps it from keeping anything, or from saving it; empty where nothing does."""
        return (self.source.fault if self.source else "") or self._watch.fault

    @property
    def savable(self) -> bool:
        """Whether an incident could be saved now, as far as is known."""
        return not self._watch.fault

    @property
    def counts(self) -> Mapping[str, int]:
        """outcome -> how many times"""
        with self._turn:
            counts = self._counts.copy()
            counts.update(outcome for saving in self._saving if (outcome := _outcome(saving)))
            return dict(counts)

    @property
    def told(self) -> dict[str, Any]:
        """What there is to say of it."""
        fault = {"fault": self._watch.fault}
        return {"holds": asdict(self._memory.held), "incidents": self.counts, "folder": str(self._folder.path)} | fault

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
            fired = self._judge.judged(batch.events, over, answered, waiting, batch.now)
            return [cause_of(each, self._plan.ids) for each in fired]
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
        """Somebody asks for an incident: whether it is `begun`, where, and until when it is saved; or which one it has
        `joined`; or that it `failed`, and why."""
        taken = self._take(cause_by_hand(how, reason, time.monotonic_ns()))
        saving = taken.saving
        if saving is None:
            return {"outcome": "failed", "reason": taken.reason}
        if taken.outcome == "joined":
            return {"outcome": "joined", "folder": str(saving.path)}
        if not saving.begun(BEGIN_S):
            return {"outcome": "failed", "reason": f"cannot save into {self._folder.path}: {saving.failed}"}
        return {"outcome": "begun", "folder": str(saving.path), "until": utc(saving.until)}

    def close(self) -> None:
        """Reading has ended: end what is being saved."""
        self._watch.close()
        self._memory.seal(self._readings, time.monotonic_ns())
        for saving in self._saving:
            saving.close()
        self._folder.close()

    def _take(self, cause: Cause) -> _Taken:
        with self._turn:
            taken = self._judged(cause)
            if taken.outcome != BEGUN:  # what becomes of that is known once it is over
                self._counts[taken.outcome] += 1
            return taken

    def _judged(self, cause: Cause) -> _Taken:
        self._settle()
        for saving in self._saving:
            if saving.take(cause):
                return _Taken("joined", saving)
        if not cause.by_hand and cause.at < self._quiet():
            self._suppressed += 1
            return _Taken("suppressed")
        taken = self._begin(cause)
        if taken.saving is None:
            self._failed_at = cause.at
        elif not cause.by_hand:
            self._quiet_until = cause.at + round(self._plan.pause_s * SECOND)
        return taken

    def _quiet(self) -> int:
        """Until when triggers begin nothing."""
        failing = self._failed_at and self._watch.fault
        return max(self._quiet_until, self._failed_at + round(AGAIN_S * SECOND) if failing else 0)

    def _settle(self) -> None:
        """Let go of what is over. What could not be saved uses up no pause."""
        done = [saving for saving in self._saving if saving.over]
        self._saving = [saving for saving in self._saving if not saving.over]
        for saving in done:
            self._counts[_outcome(saving) or "failed"] += 1
            if not saving.ended:
                self._failed_at = saving.cause.at
                self._quiet_until = self._quiet_until if saving.cause.by_hand else 0

    def _begin(self, cause: Cause) -> _Taken:
        plan, told = self._plan, {"suppressed_before": self._suppressed}
        span = Span.around(cause, plan.before_s, plan.after_s)
        into, watch = self._folder, self._watch
        try:
            saving = Saving(cause, span, self._memory, into, watch, self._say, self._sample, plan.ids, **told)
        except (OSError, InputError) as error:
            reason = reason_of(error) if isinstance(error, OSError) else str(error)
            sentence = f"cannot save into {into.path}: {reason}"
            if watch.failed(reason):
                self._say(f"kvscope: {sentence}")
            return _Taken("failed", reason=sentence)
        self._suppressed = 0
        self._say(f"{saving.path}: {cause.text}; saving until {plan.after_s:g} s after")
        self._saving.append(saving)
        saving.start()
        return _Taken(BEGUN, saving)

    def _say_if_short(self) -> None:
        """Once, that less is kept than was asked for."""
        held = self._memory.held
        if held.dropped and not self._short:
            self._short = True
            room = f"{held.size / 1e6:.0f} MB hold the last {held.seconds:.0f} s only"
            self._say(f"kvscope: {room}; give --keep-bytes more to keep all that --keep asks for")


def _outcome(saving: Saving) -> str:
    """What has become of it; empty while that is open."""
    return "failed" if saving.failed else "saved" if saving.whole else ""

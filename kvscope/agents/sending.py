"""What the spool holds goes to the aggregator, one batch after the other. Standard library only."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kvscope.agents.spool import Spool, head_of
from kvscope.agents.transport import Transport, Undelivered
from kvscope.agents.wire import GARBAGE, VERSION, listed, sealed
from kvscope.model.exchange import Exchange
from kvscope.probe.ring import boot_id
from kvscope.probe.tap import Progress, is_progress

BEAT_S = 1.0
"""So often something is sent, if only to say that the agent is there, and what the clocks show."""
WORD_S = 5.0
"""So often also while there are batches."""
AGAIN_S = (0.25, 0.5, 1.0, 2.0, 5.0)
"""Between two attempts; the last one again and again."""


@dataclass
class Asking:
    """A question that has to be answered before anything is sent."""

    rings: Callable[[], list[str]]
    """names of ring files: how far were they read?"""
    known: Progress = field(default_factory=dict)
    """of those that the aggregator knows, once it is heard"""
    heard: threading.Event = field(default_factory=threading.Event)
    settled: threading.Event = field(default_factory=threading.Event)
    """It is taken in."""


@dataclass
class Sent:
    """What became of batches, since the agent was started."""

    taken: int = 0
    refused: int = 0
    """by the aggregator, and not to be sent again: they were no batches to it"""


class Sender:
    """Sends what is there until it is told to stop. One thread."""

    def __init__(self, spool: Spool, transport: Transport, name: str, say: Callable[[str], None]) -> None:
        """name: what the host is called; say: is told when the far end goes away and comes back."""
        self._spool, self._transport, self._name, self._say = spool, transport, name, say
        self._boot_id = boot_id()
        self._exchange: Exchange | None = None
        self._word_at = 0.0
        self.sent = Sent()
        self.trouble = ""
        """What is in the way; empty: nothing."""

    def run(self, stop: threading.Event, first: Asking | None = None) -> None:
        """Send; once it is to stop, what is there is tried once more. first: what is to be known before."""
        if first is not None and not self._know(first, stop):
            return
        failures = 0
        while True:
            last = stop.is_set()
            delivered = self._turn(0.0 if last else BEAT_S)
            if last and (not delivered or not self._spool.waiting):
                return
            failures = 0 if delivered else failures + 1
            if failures:
                stop.wait(AGAIN_S[min(failures, len(AGAIN_S)) - 1])

    def _know(self, first: Asking, stop: threading.Event) -> bool:
        """Whether it could be asked, and whoever wanted to know has taken it in."""
        failures = 0
        while (known := self._known(first.rings())) is None:
            failures += 1
            if stop.wait(AGAIN_S[min(failures, len(AGAIN_S)) - 1]):
                return False
        first.known = known
        first.heard.set()
        while not first.settled.wait(BEAT_S):
            if stop.is_set():
                return False
        return True

    def _known(self, rings: list[str]) -> Progress | None:
        answer = self._ask({"ask": rings})
        found = answer.get("rings") if answer is not None else None
        return (
            {name: found[name] for name in rings if is_progress(found.get(name))} if isinstance(found, dict) else None
        )

    def _turn(self, patience_s: float) -> bool:
        """Send the oldest batch, or a word; whether that came there."""
        found = self._spool.oldest(patience_s)
        if found is None:
            return patience_s == 0 or self._ask({}) is not None
        path, batch = found
        # A word is enough to be refused with; and its exchange tells more of clocks, as it is sooner there.
        if (self.trouble or time.monotonic() >= self._word_at) and self._ask({}) is None:
            return False
        answer = self._ask({}, batch)
        if answer is None:
            return False
        head = head_of(batch)
        if answer.get("taken") == [head.get("recording"), head.get("part")]:
            self.sent.taken += 1
            self._spool.took(path)
            return True
        refused = answer.get("refused")
        if isinstance(refused, dict) and refused.get("kind") == GARBAGE:
            self.sent.refused += 1
            self._say(f"kvscope: {self._transport.name} takes {path.name} for no batch, and it is not sent again")
            self._spool.took(path)
            return True
        self._heed(f"{self._transport.name} did not say that it took {path.name}")
        return False

    def _ask(self, more: dict[str, Any], batch: bytes = b"") -> dict[str, Any] | None:
        agent = {"name": self._name, "boot_id": self._boot_id, "version": VERSION}
        envelope = {"agent": agent, "exchange": listed(self._exchange), "waiting": self._spool.waiting} | more
        if self._spool.dropped:
            envelope["dropped"] = self._spool.dropped
        sent = time.monotonic_ns()
        try:
            answer = self._transport.ask(sealed(envelope | {"sent": sent}, batch))
        except Undelivered as error:
            self._heed(str(error))
            return None
        self._note(sent, answer, time.monotonic_ns())
        if not batch:
            self._word_at = time.monotonic() + WORD_S
        if isinstance(refused := answer.get("refused"), dict) and refused.get("kind") != GARBAGE:
            self._heed(f"{self._transport.name} {refused.get('why')}")
            return None
        self._heed("")
        return answer

    def _note(self, sent: int, answer: dict[str, Any], back: int) -> None:
        """What the clocks showed goes with the next question."""
        match answer:
            case {"boot_id": str(peer), "received": int(received), "replied": int(replied)}:
                self._exchange = Exchange(self._boot_id[:8], peer[:8], sent, received, replied, back)

    def _heed(self, trouble: str) -> None:
        """Say it when it changes."""
        if trouble and trouble != self.trouble:
            self._say(f"kvscope: {trouble}; batches wait on disk, and it is tried again")
        elif self.trouble and not trouble:
            self._say(f"kvscope: {self._transport.name} takes batches again")
        self.trouble = trouble

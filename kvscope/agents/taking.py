"""The aggregator: takes each batch once, and keeps what is in it in a folder of parts. Standard library only.

A batch is acknowledged once it and a mark are written. The mark says which batch it was and how far that brought each
process; so whoever is started anew in the folder goes on to the record. What the mark does not follow was not
acknowledged, is cut off then, and comes again.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvscope.agents.accounts import Account, Verdict
from kvscope.agents.incoming import Incoming, NoBatchError, OtherVersionError, incoming
from kvscope.agents.memory import remembered
from kvscope.agents.owners import Owners
from kvscope.agents.wire import FULL, GARBAGE, KINDS, OTHER_VERSION, OTHERS, VERSION, exchange_of, listed
from kvscope.model.counting import count
from kvscope.model.errors import InputError
from kvscope.probe.layout import RECORD_BYTES
from kvscope.probe.recording import SEVERAL
from kvscope.probe.ring import boot_id, clock_pair
from kvscope.sources.rotation import Folder, Limits
from kvscope.sources.standalone import Standalone

PART_S = 60.0
"""A part is begun so often, at least: a view that comes begins with the one before."""
SILENT_NS, GONE_NS = 5_000_000_000, 600_000_000_000
"""An agent says a word every second. One that was not heard for ten minutes is no longer spoken of."""
QUIET_NS = 60_000_000_000
"""A refusal of one kind from one place is said once in so long."""

MOST_AGENTS = 10_000


@dataclass
class Counts:
    """What there was, since the aggregator was started."""

    batches: int = 0
    events: int = 0
    duplicates: int = 0
    """batches that came again, and were counted once"""
    missing: int = 0
    """batches that never came, though later ones of the same run did"""
    overlap: int = 0
    """records that came in two batches: counted twice"""
    others: int = 0
    """records of processes that another agent tells of: not taken"""
    refused: Counter[str] = field(default_factory=Counter)
    """kind -> how often"""


class Taker:
    """Owns the folder. For any thread. A context manager."""

    def __init__(self, folder: Path, quota: int | None = None, say: Callable[[str], None] = lambda _: None) -> None:
        """say: is told of each kind of refusal, once a minute from one place. InputError: the folder cannot be had."""
        self.folder, self._say, self._boot_id = folder, say, boot_id()
        self._limits = Limits(part_s=PART_S, quota=quota)
        self.counts, self._owners = Counts(), Owners()
        self.agents: dict[str, int] = {}
        """who was heard -> when, ns"""
        self._said: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()
        self._fault = ""
        try:
            self._open()
        except OSError as error:
            raise InputError(
                f"cannot keep what agents send in {folder}: {(error.strerror or str(error)).lower()}"
            ) from None

    def _open(self) -> None:
        self._parts = Folder(self.folder, self._limits)
        try:
            self._memory = remembered(self.folder)
            self._writer = Standalone(self._parts.begin)
            self._mark(self._memory.whole())
        except BaseException:
            self._parts.__exit__(None, None, None)
            raise

    def __enter__(self) -> Taker:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if not self._fault:
                self._writer.end({"events": self.counts.events})
                self._parts.__exit__(None, None, None)

    @property
    def fault(self) -> str:
        """What keeps it from taking anything; empty where nothing does."""
        return self._fault

    @property
    def told(self) -> dict[str, Any]:
        """What there is to say of it."""
        counts, now = self.counts, time.monotonic_ns()
        return {
            "agents": {name: round((now - at) / 1e9, 1) for name, at in sorted(self.agents.items())},
            "batches": counts.batches,
            "events": counts.events,
            "duplicate_batches": counts.duplicates,
            "missing_batches": counts.missing,
            "overlapping_events": counts.overlap,
            "events_of_others": counts.others,
            "refused": dict(counts.refused),
        }

    @property
    def notes(self) -> list[str]:
        """What a person should know beside the numbers; nothing, where all is well."""
        counts = self.counts
        counted = (
            (counts.duplicates, ("batch", "batches"), "of agents came twice, and counted once"),
            (counts.missing, ("batch", "batches"), "of agents never came, and what was in them is lost"),
            (counts.overlap, ("event", "events"), "came in two batches, and counted twice"),
            (counts.others, ("event", "events"), "of processes that another agent tells of, left out"),
        )
        found = [f"{count(number, *noun)} {what}" for number, noun, what in counted if number]
        refused = ", ".join(f"{kind} {number:,}" for kind, number in sorted(counts.refused.items()))
        return [*found, f"what agents sent was refused: {refused}"] if refused else found

    @property
    def silent(self) -> list[str]:
        """Agents that have fallen silent: what their engines do is not here."""
        now = time.monotonic_ns()
        return [
            f"agent {name} has not been heard for {(now - at) // 1_000_000_000} s: its engines' events are not here"
            for name, at in sorted(self.agents.items())
            if SILENT_NS <= now - at < GONE_NS
        ]

    def take(self, body: bytes, peer: str, received: int) -> dict[str, Any]:
        """The answer to what came from `peer`; received: ns, when."""
        try:
            found = incoming(body)
            if found.envelope["agent"].get("version") != VERSION:
                raise OtherVersionError(
                    f"it speaks version {found.envelope['agent'].get('version')}, this is {VERSION}"
                )
        except NoBatchError as error:
            kind = OTHER_VERSION if isinstance(error, OtherVersionError) else GARBAGE
            return self._answer(received, refused={"kind": kind, "why": self.refuse(kind, peer, str(error))})
        with self._lock:
            return self._taken(found, peer, received)

    def refuse(self, kind: str, peer: str, why: str = "") -> str:
        """Count a refusal, and say it where it was not said just now. Returns the sentence."""
        self.counts.refused[kind] += 1
        sentence = f"refused what came from {peer}: {KINDS[kind]}{f' ({why})' if why else ''}"
        now = time.monotonic_ns()
        if now - self._said.get((kind, peer), -QUIET_NS) >= QUIET_NS:
            if len(self._said) > 1000:
                self._said.clear()
            self._said[kind, peer] = now
            self._say(f"kvscope: {sentence}")
        return sentence

    def _taken(self, found: Incoming, peer: str, received: int) -> dict[str, Any]:
        agent = found.envelope["agent"]
        whose = f"{agent.get('name') or peer} {str(agent.get('boot_id'))[:8]}"
        self.agents[whose] = received
        while len(self.agents) > MOST_AGENTS:
            self.agents.pop(min(self.agents, key=lambda name: self.agents[name]))
        self._owners.heard(whose, received)
        answer: dict[str, Any] = {}
        if isinstance(asked := found.envelope.get("ask"), list):
            answer["rings"] = self._known_rings(str(agent.get("boot_id")), asked)
        try:
            if self._fault:
                self._reopen()
            if found.has_batch:
                self._batch(found, whose, peer, received)
                answer["taken"] = [found.recording, found.part]
            elif exchange := exchange_of(found.envelope.get("exchange")):
                self._mark({"accounts": {}, "exchange": listed(exchange)})
        except (OSError, InputError) as error:
            why = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
            self._break(why)
            return self._answer(received, refused={"kind": FULL, "why": self.refuse(FULL, peer, why)})
        return self._answer(received, **answer)

    def _batch(self, found: Incoming, whose: str, peer: str, received: int) -> None:
        run = self._memory.run(found.recording)
        verdict = run.judge(found.part)
        if verdict is Verdict.DUPLICATE:
            self.counts.duplicates += 1
            return
        if self._parts.broken or (self._writer.used and self._parts.full()):
            self._writer.turn()
            self._mark(self._memory.whole())
        self._parts.trim()
        missing = run.missing
        run.take(found.part)
        run.name, run.boot_id, run.rings = found.name, found.boot_id, found.rings or run.rings
        self._writer.texts(found.texts)
        touched = {}
        for key, info in found.processes.items():
            whole = f"{info.get('boot_id')} {key}"
            if why := self._owners.other(whose, key, info, received):
                self.counts.others += found.held(key)
                self.refuse(OTHERS, peer, f"{why}; {count(found.held(key), 'event')} of it are left out")
                continue
            touched[whole] = self._process(whole, key, info, found)
        exchange = listed(exchange_of(found.envelope.get("exchange")))
        self._mark(
            {
                "runs": {found.recording: run.told()},
                "accounts": {whole: account.told() for whole, account in touched.items()},
                "next": self._memory.next,
            }
            | ({"exchange": exchange} if exchange else {})
        )
        self.counts.batches += 1
        self.counts.missing += run.missing - missing

    def _process(self, whole: str, key: str, info: dict[str, Any], found: Incoming) -> Account:
        account = self._memory.account(whole)
        if account is None:
            dropped = found.envelope.get("dropped")
            gone = dropped.get(key, 0) if isinstance(dropped, dict) else 0
            account = self._memory.open(whole, info, int(gone))
        raw, overlap = found.raw.get(key, b""), account.overlap
        account.take(int(info.get("earlier", 0)), len(raw) // RECORD_BYTES, int(info.get("lost", 0)))
        account.ended = info.get("alive") is False
        self.counts.overlap += account.overlap - overlap
        self._writer.process(account.number, account.said(info))
        self._writer.records(account.number, SEVERAL, raw)
        self.counts.events += len(raw) // RECORD_BYTES
        return account

    def _known_rings(self, boot: str, asked: list[Any]) -> dict[str, Any]:
        """ring file -> how far it was read, by the batches that were taken"""
        found: dict[str, Any] = {}
        for run in self._memory.runs.values():
            if run.boot_id == boot:
                for name in set(map(str, asked)) & run.rings.keys():
                    if name not in found or _read(run.rings[name]) > _read(found[name]):
                        found[name] = run.rings[name]
        return found

    def _mark(self, info: dict[str, Any]) -> None:
        monotonic_ns, realtime_ns, _ = clock_pair()
        clocks = {"monotonic_ns": monotonic_ns, "realtime_ns": realtime_ns, "boot_id": self._boot_id, "rings": {}}
        self._writer.mark(clocks | info)
        self._parts.check()

    def _break(self, why: str) -> None:
        """Nothing is taken until it can be written again: what is in memory may not be what is in the folder."""
        if not self._fault:
            with suppress(OSError):  # what could not be written is not lost: it was not acknowledged
                self._parts.__exit__(None, None, None)
        self._fault = f"what agents send cannot be kept in {self.folder}: {why}"

    def _reopen(self) -> None:
        self._open()
        self._fault = ""

    def _answer(self, received: int, **more: object) -> dict[str, Any]:
        return {"boot_id": self._boot_id, "received": received} | more


def _read(entry: Any) -> int:  # noqa: ANN401
    """Records read, by one entry of a mark."""
    try:
        return sum(int(at) for _, at, _ in entry[3])
    except (TypeError, ValueError, IndexError):
        return -1

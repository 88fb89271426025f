"""Events as JSON lines, the open door: one object per moment. `docs/events.md` is the schema."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kvscope.model.errors import InputError
from kvscope.model.events import EVENT, Events
from kvscope.model.moments import MOMENT
from kvscope.probe import layout
from kvscope.probe.vocabulary import (
    DIRECTION_CODE,
    LEG_CODE,
    MOMENT_CODE,
    REASON_CODE,
    STATE_CODE,
    TEXT_VALUES,
    THREAD_CODE,
    UNKNOWN,
    VALUES,
)
from kvscope.sources.fields import code, integer, sentences, shown, truth, word
from kvscope.sources.keys import key_of_text
from kvscope.sources.told import Told

VERSION = 1

FLAGS: dict[str, int] = {
    "clock_step": layout.FLAG_CLOCK_STEP,
    "recompute": layout.FLAG_RECOMPUTE,
    "remote_prefill": layout.FLAG_REMOTE_PREFILL,
    "remote_decode": layout.FLAG_REMOTE_DECODE,
    "again": layout.FLAG_AGAIN,
    "cleanup": layout.FLAG_CLEANUP,
}
"""field (true or absent) -> flag of the record"""
COMMON: dict[str, str] = {
    "t": "ns, monotonic clock of the host; required",
    "moment": "its name; required",
    "leg": "prefill, decode, router or engine; required but for engine-scoped moments",
    "engine": "stable name of the engine or router; required",
    "engine_id": "new at each start of the engine: tells a restarted engine from the one before",
    "host": "where that clock runs",
    "pid": "process that stamped it, where the engine has several",
    "request": "request id on this engine; for a router, the X-Request-Id",
    "peer_request": "the other leg's request id (`matched`, and a pull's `reserved`)",
    "remote_request": "the prefill request id that the router gave the decode leg (`queued`)",
    "rank": "rank that stamped it",
    "peer_rank": "rank at the other end of the transfer",
    "thread": "role of the thread that stamped it",
    "step": "engine step that was running",
    "state": "state that the post returned (`posted`): PROC, DONE or ERR",
    "reason": "why (`held`, `failed`, `finished`); any text, the vocabulary's names are understood",
    "started": "what the engine says of itself (`started`): an object",
    "lost": "moments this engine could not record (`started`)",
}
"""field -> meaning, beside the values and flags"""
PROCESS: dict[str, str] = {
    "engine": "stable name of the engine or router; required",
    "engine_id, host, pid": "as its moments tell them",
    "started": "what it says of itself: versions, connector, sizes: an object",
    "lost": "moments that were lost since reading began",
    "earlier": "moments that were overwritten before reading began",
    "note": "why it is not instrumented, if it is not",
    "ended, off": "true: it runs no more; it was switched off when it was last looked at",
    "wall_offset_ns": "what to add to its times to get the time of day, ns since 1970",
    "gaps": "where its source leaves something out: a list of objects with `begin`, `end` (ns), `events`",
}
"""field of a `process` object -> meaning"""
WHOLE: dict[str, str] = {
    "process": "one process: an object, in place of a moment; a later one of the same process replaces it",
    "notes": "what reading the source of these lines had to say: a list of sentences",
    "impossible": "how many records of that source could not be events",
}
"""field of an object without a moment -> meaning"""
_OF_ALL = WHOLE.keys() | {"version"}
_KNOWN = COMMON.keys() | FLAGS.keys()
_ENGINE_SCOPED = frozenset(name for name, moment in MOMENT.items() if moment.legs == ("engine",))


@dataclass
class JsonLines:
    """What a file of JSON lines held."""

    events: Events
    unknown_moments: Counter[str] = field(default_factory=Counter)
    """Moments of a later version or another tool: left out, and counted."""
    unknown_fields: Counter[str] = field(default_factory=Counter)
    """Fields that the moment does not have: ignored, and counted."""
    notes: list[str] = field(default_factory=list)
    """What reading the source of these lines had to say."""


def parse_jsonl(lines: Iterable[str], name: str = "input") -> JsonLines:
    """Lines -> events. `name` is what errors call the input."""
    reader = _Reader(name)
    for number, line in enumerate(lines, 1):
        if line.strip():
            reader.take(number, line)
    return reader.done()


class _Reader:
    """Gathers rows, processes and texts line by line."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: list[tuple[Any, ...]] = []
        self.processes = Told()
        self.texts: dict[int, str] = {}
        self.moments: Counter[str] = Counter()
        self.fields: Counter[str] = Counter()
        self.notes: list[str] = []
        self.impossible = 0

    def take(self, number: int, line: str) -> None:
        where = f"{self.name}:{number}"
        try:
            item = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where} is not JSON: {error}; one object per line is expected") from error
        if not isinstance(item, dict):
            raise InputError(f"{where} is not a JSON object; one object per moment is expected")
        if "moment" not in item and not item.keys().isdisjoint(_OF_ALL):
            self._whole(item, where)
        elif (moment := word(item, "moment", where)) in MOMENT:
            self.rows.append(self._row(item, where))
        elif moment:
            self.moments[moment] += 1
        else:
            raise InputError(f'{where} has no "moment"; see docs/events.md for the names')

    def _whole(self, item: dict[str, Any], where: str) -> None:
        """What is said of the file, or of a process."""
        if "version" in item:
            _check_version(item["version"], where)
        if "process" in item:
            self.processes.put(item["process"], where)
        self.notes += sentences(item, "notes", where)
        self.impossible += integer(item, "impossible", where, 0)

    def _row(self, item: dict[str, Any], where: str) -> tuple[Any, ...]:
        moment = item["moment"]
        names = VALUES.get(moment, ())
        self.fields.update(item.keys() - _KNOWN - set(names))
        process = self.processes.number(item, where)
        if moment == "started":
            self.processes.add(item, where)
        reason = word(item, "reason", where) or "none"
        values = [self._value(item, name, where) for name in names]
        if reason not in REASON_CODE and "reason_text" in names:
            values[names.index("reason_text")] = _signed(key_of_text(reason, self.texts))
        return (
            integer(item, "t", where),
            self._text(item, "request", where),
            self._text(item, "peer_request", where) or self._text(item, "remote_request", where),
            process,
            MOMENT_CODE[moment],
            code(item, "leg", LEG_CODE, where, "engine" if moment in _ENGINE_SCOPED else None),
            self._thread(item, where),
            code(item, "state", STATE_CODE, where, "none"),
            integer(item, "rank", where, 0),
            integer(item, "peer_rank", where, 0),
            integer(item, "step", where, 0),
            REASON_CODE.get(reason, 0),
            _flags(item, where),
            (*values, *[UNKNOWN] * (layout.VALUES - len(values))),
        )

    def _thread(self, item: dict[str, Any], where: str) -> int:
        """Other connectors have other threads: what the vocabulary lacks is unknown, and counted."""
        given = word(item, "thread", where) or "unknown"
        if given not in THREAD_CODE:
            self.fields[f"thread {given}"] += 1
        return THREAD_CODE.get(given, 0)

    def _value(self, item: dict[str, Any], name: str, where: str) -> int:
        given = item.get(name)
        if given is None:
            return UNKNOWN
        if name in TEXT_VALUES and isinstance(given, str):
            return _signed(key_of_text(given, self.texts))
        if name == "direction" and isinstance(given, str):
            return code(item, name, DIRECTION_CODE, where, None)
        return integer(item, name, where)

    def _text(self, item: dict[str, Any], name: str, where: str) -> int:
        given = item.get(name)
        if given is None:
            return 0
        if not isinstance(given, str) or not given:
            raise InputError(f'{where}: "{name}" must be a non-empty text, not {shown(given)}')
        return key_of_text(given, self.texts)

    def done(self) -> JsonLines:
        events = Events(np.array(self.rows, EVENT), self.processes.all(), self.texts, self.impossible)
        return JsonLines(events, self.moments, self.fields, self.notes)


def _check_version(version: object, where: str) -> None:
    if isinstance(version, bool) or version != VERSION:  # 1.0 is 1: JSON has one kind of number
        raise InputError(
            f"{where} says version {shown(version)}; this kvscope reads version {VERSION}: convert the file"
        )


def _signed(key: int) -> int:
    return key - (1 << 64) if key >> 63 else key


def _flags(item: dict[str, Any], where: str) -> int:
    flags = sum(bit for name, bit in FLAGS.items() if truth(item, name, where))
    asked = item.get("remote_request") and item.get("remote_prefill") is None
    return flags | (layout.FLAG_REMOTE_PREFILL if asked else 0)

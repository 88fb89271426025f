"""Events as JSON lines, the open door: one object per moment. `docs/events.md` is the schema."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kvscope.model.errors import InputError
from kvscope.model.events import EVENT, Events, Process
from kvscope.model.moments import MOMENT
from kvscope.probe import layout
from kvscope.probe.recorder import key64
from kvscope.probe.vocabulary import (
    DIRECTION_CODE,
    DIRECTIONS,
    LEG_CODE,
    LEGS,
    MOMENT_CODE,
    MOMENTS,
    REASON_CODE,
    REASONS,
    STATE_CODE,
    STATES,
    THREAD_CODE,
    THREADS,
    UNKNOWN,
    VALUES,
)

VERSION = 1

FLAGS: dict[str, int] = {
    "clock_step": layout.FLAG_CLOCK_STEP,
    "recompute": layout.FLAG_RECOMPUTE,
    "remote_prefill": layout.FLAG_REMOTE_PREFILL,
    "remote_decode": layout.FLAG_REMOTE_DECODE,
    "again": layout.FLAG_AGAIN,
}
"""field (true or absent) -> flag of the record"""
COMMON: dict[str, str] = {
    "t": "ns, monotonic clock of the host; required",
    "moment": "its name; required",
    "leg": "prefill, decode, router or engine; required but for engine-scoped moments",
    "engine": "stable name of the engine or router; required",
    "engine_id": "new at each start of the engine: tells a restarted engine from the one before",
    "host": "where that clock runs",
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
TEXT_VALUES = frozenset(("peer_engine", "reason_text"))
"""Values that are texts: an engine's id or stable name, an engine's own words."""
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
        self.processes: dict[tuple[str, str, str], int] = {}
        self.told: dict[int, dict[str, Any]] = {}
        self.lost: dict[int, int] = {}
        self.texts: dict[int, str] = {}
        self.moments: Counter[str] = Counter()
        self.fields: Counter[str] = Counter()

    def take(self, number: int, line: str) -> None:
        where = f"{self.name}:{number}"
        try:
            item = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where} is not JSON: {error}; one object per line is expected") from error
        if not isinstance(item, dict):
            raise InputError(f"{where} is not a JSON object; one object per moment is expected")
        if "moment" not in item and "version" in item:
            _check_version(item["version"], where)
        elif (moment := _word(item, "moment", where)) in MOMENT:
            self.rows.append(self._row(item, where))
        elif moment:
            self.moments[moment] += 1
        else:
            raise InputError(f'{where} has no "moment"; see docs/events.md for the names')

    def _row(self, item: dict[str, Any], where: str) -> tuple[Any, ...]:
        moment = item["moment"]
        names = VALUES.get(moment, ())
        self.fields.update(item.keys() - _KNOWN - set(names))
        process = self._process(item, where)
        if moment == "started":
            self.told.setdefault(process, {}).update(_started_told(item, where))
            self.lost[process] = self.lost.get(process, 0) + _integer(item, "lost", where, 0)
        reason = _word(item, "reason", where) or "none"
        values = [self._value(item, name, where) for name in names]
        if reason not in REASON_CODE and "reason_text" in names:
            values[names.index("reason_text")] = _signed(self._key(reason))
        return (
            _integer(item, "t", where),
            self._text(item, "request", where),
            self._text(item, "peer_request", where) or self._text(item, "remote_request", where),
            process,
            MOMENT_CODE[moment],
            _code(item, "leg", LEG_CODE, where, "engine" if moment in _ENGINE_SCOPED else None),
            self._thread(item, where),
            _code(item, "state", STATE_CODE, where, "none"),
            _integer(item, "rank", where, 0),
            _integer(item, "peer_rank", where, 0),
            _integer(item, "step", where, 0),
            REASON_CODE.get(reason, 0),
            _flags(item, where),
            (*values, *[UNKNOWN] * (layout.VALUES - len(values))),
        )

    def _thread(self, item: dict[str, Any], where: str) -> int:
        """Other connectors have other threads: what the vocabulary lacks is unknown, and counted."""
        given = _word(item, "thread", where) or "unknown"
        if given not in THREAD_CODE:
            self.fields[f"thread {given}"] += 1
        return THREAD_CODE.get(given, 0)

    def _process(self, item: dict[str, Any], where: str) -> int:
        engine = _word(item, "engine", where)
        if not engine:
            raise InputError(f'{where} has no "engine"; every moment names the engine (or router) it was taken in')
        key = (_word(item, "host", where), engine, _word(item, "engine_id", where))
        return self.processes.setdefault(key, len(self.processes))

    def _value(self, item: dict[str, Any], name: str, where: str) -> int:
        given = item.get(name)
        if given is None:
            return UNKNOWN
        if name in TEXT_VALUES and isinstance(given, str):
            return _signed(self._key(given))
        if name == "direction" and isinstance(given, str):
            return _code(item, name, DIRECTION_CODE, where, None)
        return _integer(item, name, where)

    def _text(self, item: dict[str, Any], name: str, where: str) -> int:
        given = item.get(name)
        if given is None:
            return 0
        if not isinstance(given, str) or not given:
            raise InputError(f'{where}: "{name}" must be a non-empty text, not {json.dumps(given)}')
        return self._key(given)

    def _key(self, text: str) -> int:
        key = key64(text)
        self.texts[key] = text
        return key

    def done(self) -> JsonLines:
        processes = tuple(
            Process(engine, engine_id, host, started=self.told.get(index, {}), lost=self.lost.get(index, 0))
            for (host, engine, engine_id), index in self.processes.items()
        )
        events = Events(np.array(self.rows, EVENT), processes, self.texts)
        return JsonLines(events, self.moments, self.fields)


def _check_version(version: object, where: str) -> None:
    if version != VERSION:
        raise InputError(
            f"{where} says version {json.dumps(version)}; this kvscope reads version {VERSION}: convert the file"
        )


def _signed(key: int) -> int:
    return key - (1 << 64) if key >> 63 else key


# What is counted, or lasts, is never below zero, and stays summable in 64 bits. Instants and offsets may be negative.
COUNTED = frozenset(
    {
        *("tokens", "cached", "blocks", "free_blocks", "bytes", "descriptors", "requests", "folded", "lost"),
        *("waiting", "running", "held", "connector_ns", "largest_gap", "rtt_ns", "nixl_post", "nixl_duration"),
    }
)
MOST = 2**48
_LIMITS = {"rank": (0, 0xFFFF), "peer_rank": (0, 0xFFFF), "step": (0, 0xFFFF_FFFF)} | dict.fromkeys(COUNTED, (0, MOST))


def _integer(item: dict[str, Any], name: str, where: str, default: int | None = None) -> int:
    given = item.get(name, default)
    if given is None and default is not None:
        return default
    if not isinstance(given, int) or isinstance(given, bool):
        what = "is missing" if given is None else f"is {json.dumps(given)}"
        raise InputError(f'{where}: "{name}" {what}; an integer is expected')
    low, high = _LIMITS.get(name, (-(2**63), 2**63 - 1))
    if not low <= given <= high:
        raise InputError(f'{where}: "{name}" is {given}; it must lie between {low} and {high}')
    return given


def _code(item: dict[str, Any], name: str, codes: dict[str, int], where: str, default: str | None) -> int:
    given = _word(item, name, where) or default
    if given not in codes:
        what = "is missing" if given is None else f"is {json.dumps(given)}"
        raise InputError(f'{where}: "{name}" {what}; it must be one of {", ".join(list(codes)[1:])}')
    return codes[given]


def _word(item: dict[str, Any], name: str, where: str) -> str:
    """A text that may be absent: then it is empty."""
    given = item.get(name)
    if given is not None and not isinstance(given, str):
        raise InputError(f'{where}: "{name}" is {json.dumps(given)}; a text is expected')
    return given or ""


def _started_told(item: dict[str, Any], where: str) -> dict[str, Any]:
    given = item.get("started")
    if given is not None and not isinstance(given, dict):
        raise InputError(f'{where}: "started" is {json.dumps(given)}; an object is expected')
    return given or {}


def _flags(item: dict[str, Any], where: str) -> int:
    for name in FLAGS.keys() & item.keys():
        if not isinstance(item[name], bool | None):
            raise InputError(f'{where}: "{name}" is {json.dumps(item[name])}; true is expected, or nothing')
    flags = sum(bit for name, bit in FLAGS.items() if item.get(name))
    return flags | (layout.FLAG_REMOTE_PREFILL if item.get("remote_request") else 0)


def write_jsonl(events: Events) -> Iterator[str]:
    """Events -> lines without line ends, the version first. Reading them back gives the same events."""
    yield json.dumps({"version": VERSION})
    for process in events.processes:
        if process.started or process.lost:
            yield json.dumps(_started(process))
    for row in events.rows:
        yield json.dumps(_item(row, events))


def _started(process: Process) -> dict[str, Any]:
    item = {"t": 0, "moment": "started", "leg": "engine", **_identity(process), "started": process.started}
    return {**item, "lost": process.lost} if process.lost else item


def _identity(process: Process) -> dict[str, str]:
    told = {"host": process.host, "engine": process.engine, "engine_id": process.engine_id}
    return {name: value for name, value in told.items() if value}


def _item(row: np.void, events: Events) -> dict[str, Any]:
    """One event with what is known of it; what is not is left out."""
    moment = MOMENTS[row["moment"]]
    peer = "remote_request" if moment == "queued" else "peer_request"
    item: dict[str, Any] = {"t": int(row["t"]), **_identity(events.processes[row["process"]])}
    item |= {"leg": LEGS[row["leg"]], "moment": moment}
    item |= {name: _told(row, key, events) for name, key in (("request", "request"), (peer, "peer")) if row[key]}
    item |= {name: int(row[name]) for name in ("rank", "peer_rank", "step") if row[name]}
    item |= {
        name: names[row[name]]
        for name, names in (("thread", THREADS), ("state", STATES), ("reason", REASONS))
        if row[name]
    }
    for name, value in zip(VALUES.get(moment, ()), row["values"].tolist(), strict=False):
        if value != UNKNOWN:
            item[name] = _value_text(name, value, events)
    return item | {name: True for name, bit in FLAGS.items() if row["flags"] & bit}


def _told(row: np.void, key: str, events: Events) -> str:
    return events.texts.get(int(row[key]), f"#{int(row[key]):016x}")


def _value_text(name: str, value: int, events: Events) -> int | str:
    if name in TEXT_VALUES:
        return events.texts.get(value & 0xFFFF_FFFF_FFFF_FFFF, value)
    return DIRECTIONS[value] if name == "direction" else value

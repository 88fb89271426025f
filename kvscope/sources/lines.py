"""Events written as JSON lines. `docs/events.md` is the schema, `jsonl` reads them back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from kvscope.model.events import Events, Process
from kvscope.probe.vocabulary import (
    DIRECTIONS,
    LEGS,
    MOMENT_CODE,
    MOMENTS,
    REASONS,
    STATES,
    TEXT_VALUES,
    THREADS,
    UNKNOWN,
    VALUES,
)
from kvscope.sources.fields import COUNTED, MOST
from kvscope.sources.jsonl import FLAGS, VERSION
from kvscope.sources.keys import text_of_key

Who = tuple[str, str, str, int]
Rest = tuple[int, int, int, int, int, int, bool]
"""rank, peer rank, thread, state, reason, flags, whether a prefill request was given"""
_QUEUED = MOMENT_CODE["queued"]
_REMOTE_PREFILL = FLAGS["remote_prefill"]
_FIELDS = ("t", "process", "moment", "leg", "request", "peer", "step")
_REST = ("rank", "peer_rank", "thread", "state", "reason", "flags")
_TOLD: list[list[tuple[int, str]]] = [list(enumerate(VALUES.get(moment, ()))) for moment in MOMENTS]


def write_jsonl(events: Events) -> Iterator[str]:
    """Events -> lines without line ends, the version first. Reading them back gives the same events."""
    yield version_line()
    telling = tuple(process for process in events.processes if _beyond_identity(process))
    yield from process_lines(telling)
    yield from Lines().of(events)


def version_line() -> str:
    """The first line."""
    return json.dumps({"version": VERSION})


def process_lines(processes: tuple[Process, ...]) -> Iterator[str]:
    """A line for each process. Those that nothing tells apart are one, and have lost what they lost together."""
    alike: dict[Who, list[Process]] = {}
    for process in processes:
        alike.setdefault(_who(process), []).append(process)
    for each in alike.values():
        counted: dict[str, Any] = {name: sum(getattr(one, name) for one in each) for name in ("lost", "earlier")}
        told = _beyond_identity(each[-1]) | _known(counted | {"gaps": _gaps(*each)})
        yield json.dumps({"process": _identity(each[-1]) | told}, default=str)


def last_line(notes: tuple[str, ...], impossible: int) -> str:
    """What is known in the end."""
    return json.dumps({"notes": list(notes), "impossible": impossible})


def _who(process: Process) -> Who:
    return process.host, process.engine, process.engine_id, process.pid


def _identity(process: Process) -> dict[str, Any]:
    return _known(dict(zip(("host", "engine", "engine_id", "pid"), _who(process), strict=True)))


def _beyond_identity(process: Process) -> dict[str, Any]:
    names = ("started", "lost", "earlier", "note", "ended", "off")
    offset = {} if process.wall_ns is None else {"wall_offset_ns": process.wall_ns}
    return _known({name: getattr(process, name) for name in names} | {"gaps": _gaps(process)}) | offset


def _gaps(*processes: Process) -> list[dict[str, int]]:
    return [vars(gap) for process in processes for gap in process.gaps]


def _known(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


class Lines:
    """Events -> lines. What no reader would take is left out and counted."""

    def __init__(self) -> None:
        self.left_out = 0
        """Values: of what is counted and lies beyond what a count may be."""

    def of(self, events: Events) -> Iterator[str]:
        """One line for each event, in their order."""
        texts, rests = _Texts(events.texts), _Rests()
        who = [json.dumps(_identity(process))[1:-1] for process in events.processes]
        rows = events.rows
        columns = [rows[name].tolist() for name in _FIELDS]
        rest = zip(*(rows[name].tolist() for name in _REST), strict=True)
        values = self._sound(rows).tolist()
        for t, process, moment, leg, request, peer, step, more, told in zip(*columns, rest, values, strict=True):
            line = f'{{"t": {t}, {who[process]}, "leg": "{_leg(leg)}", "moment": "{MOMENTS[moment]}"'
            if request:
                line += f', "request": {texts[request]}'
            if peer:
                line += f', "{"remote" if moment == _QUEUED else "peer"}_request": {texts[peer]}'
            if step:
                line += f', "step": {step}'
            line += rests[(*more, moment == _QUEUED and peer != 0)]
            for slot, name in _TOLD[moment]:
                if told[slot] != UNKNOWN:
                    line += f', "{name}": {_value(name, told[slot], texts)}'
            yield line + "}"

    def _sound(self, rows: np.ndarray) -> np.ndarray:
        """(n, VALUES) values that a reader takes."""
        values, moments = rows["values"].copy(), np.ascontiguousarray(rows["moment"])
        for code in np.unique(moments).tolist():
            at = np.flatnonzero(moments == code)
            for slot, name in _TOLD[code]:
                if name in COUNTED or name == "direction":
                    most = MOST if name in COUNTED else len(DIRECTIONS) - 1
                    given = values[at, slot]
                    wrong = at[((given < 0) | (given > most)) & (given != UNKNOWN)]
                    values[wrong, slot] = UNKNOWN
                    self.left_out += len(wrong)
        return np.asarray(values)


def _leg(code: int) -> str:
    return LEGS[code] if code < len(LEGS) else LEGS[0]


def _value(name: str, value: int, texts: _Texts) -> int | str:
    if name in TEXT_VALUES:
        return texts[value & 0xFFFF_FFFF_FFFF_FFFF]
    return f'"{DIRECTIONS[value]}"' if name == "direction" else value


class _Texts(dict[int, str]):
    """key -> its text, as JSON."""

    def __init__(self, texts: Mapping[int, str]) -> None:
        self._texts = texts

    def __missing__(self, key: int) -> str:
        self[key] = json.dumps(text_of_key(key, self._texts))
        return self[key]


class _Rests(dict[Rest, str]):
    """What is much the same from line to line, as JSON."""

    def __missing__(self, rest: Rest) -> str:
        rank, peer_rank, thread, state, reason, flags, asked = rest
        item: dict[str, Any] = _known({"rank": rank, "peer_rank": peer_rank})
        coded = (("thread", THREADS, thread), ("state", STATES, state), ("reason", REASONS, reason))
        item |= {name: words[code] for name, words, code in coded if 0 < code < len(words)}
        item |= {name: True for name, bit in FLAGS.items() if flags & bit}
        if asked and not flags & _REMOTE_PREFILL:
            item["remote_prefill"] = False
        self[rest] = f", {json.dumps(item)[1:-1]}" if item else ""
        return self[rest]

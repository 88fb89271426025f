"""The processes that JSON lines tell of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kvscope.model.errors import InputError
from kvscope.model.events import Gap, Process
from kvscope.sources.fields import integer, object_of, shown, truth, word

Key = tuple[str, str, str, int]
"""host, engine, engine id, pid"""


class Told:
    """Numbered in the order in which they were named."""

    def __init__(self) -> None:
        self._numbers: dict[Key, int] = {}
        self._each: list[Process] = []

    def all(self) -> tuple[Process, ...]:
        """By number."""
        return tuple(self._each)

    def number(self, item: dict[str, Any], where: str) -> int:
        """Of the process that an object names."""
        key = _key(item, where)
        number = self._numbers.setdefault(key, len(self._each))
        if number == len(self._each):
            host, engine, engine_id, pid = key
            self._each.append(Process(engine, engine_id, host, pid))
        return number

    def add(self, item: dict[str, Any], where: str) -> None:
        """What its `started` says, beside what it said before."""
        number = self.number(item, where)
        known = self._each[number]
        started, lost = known.started | object_of(item, "started", where), integer(item, "lost", where, 0)
        self._each[number] = replace(known, started=started, lost=known.lost + lost)

    def put(self, given: object, where: str) -> None:
        """What is told of it, in place of what was told before."""
        if not isinstance(given, dict):
            raise InputError(f'{where}: "process" is {shown(given)}; an object is expected')
        offset = given.get("wall_offset_ns")
        number = self.number(given, where)
        self._each[number] = replace(
            self._each[number],
            started=object_of(given, "started", where),
            lost=integer(given, "lost", where, 0),
            earlier=integer(given, "earlier", where, 0),
            note=word(given, "note", where),
            ended=truth(given, "ended", where),
            off=truth(given, "off", where),
            wall_ns=None if offset is None else integer(given, "wall_offset_ns", where),
            gaps=_gaps(given, where),
        )


def _gaps(given: dict[str, Any], where: str) -> tuple[Gap, ...]:
    told = given.get("gaps") or []
    if not isinstance(told, list) or not all(isinstance(each, dict) for each in told):
        raise InputError(f'{where}: "gaps" is {shown(told)}; a list of objects is expected')
    return tuple(Gap(*(integer(each, name, where) for name in ("begin", "end", "events"))) for each in told)


def _key(item: dict[str, Any], where: str) -> Key:
    engine = word(item, "engine", where)
    if not engine:
        raise InputError(f'{where} has no "engine"; every moment names the engine (or router) it was taken in')
    return word(item, "host", where), engine, word(item, "engine_id", where), integer(item, "pid", where, 0)

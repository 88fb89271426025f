"""What is said of processes and files, field by field as `allowed` has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvscope.probe import layout
from kvscope.probe.heading import new_recording
from kvscope.probe.ids import KEEP
from kvscope.sharing import allowed
from kvscope.sharing.allowed import Field, Rule, Table
from kvscope.sharing.known import known
from kvscope.sharing.names import Names
from kvscope.sharing.rounding import rounded_one
from kvscope.sources.gathering import identity

FIELDS = frozenset(name for table in allowed.TABLES.values() for name in table)
WHOLE = ("pid", "started", "threads")
"""Those that are no single value."""
MOST_NUMBER = 1 << 62


class Telling:
    """Says of processes and files what may be said."""

    def __init__(self, names: Names, keep_time: bool) -> None:
        self._names, self._keep_time = names, keep_time
        self.dropped: set[str] = set()
        """Fields that were there, and are not given away."""
        self.undecided: set[str] = set()
        """Those of which no table says what becomes of them."""

    def process(self, info: Mapping[str, Any], shift: int) -> dict[str, Any]:
        """Of a process whose host's clock is shifted by so many ns."""
        found = self._told(allowed.PROCESS, info, shift)
        if "pid" in info:
            found["pid"] = self._names.number("pid", "/".join(identity(info)))
        if isinstance(started := info.get("started"), dict):
            found["started"] = self._told(allowed.STARTED, started, shift)
        threads = info.get("threads")
        if isinstance(threads, list):
            roles = [str(each.get("thread")) for each in threads if isinstance(each, dict)]
            found["threads"] = [{"thread": known("thread", role) or "unknown", "name": ""} for role in roles]
        mode = self._names.ids.mode
        return found if mode == KEEP else found | {"ids": mode}

    def head(self, heads: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Of the file that is made of files which say this of themselves."""
        told = [self._told(allowed.HEAD, info, 0) for info in heads]
        first: dict[str, Any] = next((each for each in told if each), {"recording": new_recording()})
        return {**first, "layout": layout.VERSION, "part": 1, "shared": "rounded"}

    def _told(self, table: Table, info: Mapping[str, Any], shift: int) -> dict[str, Any]:
        found = {name: self._value(field, info[name], shift) for name, field in table.items() if name in info}
        self.dropped.update(name for name, value in found.items() if value is None and name not in WHOLE)
        self.undecided.update(info.keys() - table.keys())
        return {name: value for name, value in found.items() if value is not None}

    def _value(self, field: Field, given: object, shift: int) -> object:
        """What becomes of a value; None: nothing."""
        if isinstance(given, list):
            each = [self._value(field, item, shift) for item in given if isinstance(item, str)]
            return [item for item in each if item is not None] if field.kind else None
        if isinstance(given, str):
            return self._text(field, given)
        return self._number(field, given, shift) if isinstance(given, int | float) else None

    def _text(self, field: Field, text: str) -> str | None:
        if field.rule == Rule.KNOWN:
            return known(field.kind, text, FIELDS)
        return self._names.of(field.kind, text) if field.rule == Rule.RENAMED else None

    def _number(self, field: Field, number: float, shift: int) -> float | None:
        if not -MOST_NUMBER < number < MOST_NUMBER:
            return None
        if field.rule == Rule.KEPT or (field.rule == Rule.TIMED and self._keep_time):
            return number
        if field.rule == Rule.ROUNDED:
            return rounded_one(int(number))
        return int(number) + shift if field.rule == Rule.SHIFTED else None

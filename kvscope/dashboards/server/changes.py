"""What is to be on the server, beside what is there: the difference is all that is written."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

Value = object


class Verdict(StrEnum):
    """What becomes of a thing."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


@dataclass(frozen=True)
class Change:
    """One thing on the server: a data source, the folder, a dashboard, a group of rules."""

    what: str
    """kind and name, for people"""
    wanted: Value
    there: Value | None
    """None: nothing is there"""
    write: Callable[[], None]
    """brings it there"""

    @property
    def verdict(self) -> Verdict:
        """Whether anything is to be written."""
        if self.there is None:
            return Verdict.CREATED
        return Verdict.UNCHANGED if same(self.wanted, self.there) else Verdict.UPDATED

    def apply(self) -> Verdict:
        """Write it, if it differs."""
        verdict = self.verdict
        if verdict is not Verdict.UNCHANGED:
            self.write()
        return verdict

    def diff(self) -> str:
        """What would be written, line by line; empty where nothing is."""
        if self.verdict is Verdict.UNCHANGED:
            return ""
        before = [] if self.there is None else _lines(asked_of(self.wanted, self.there))
        told = difflib.unified_diff(
            before, _lines(self.wanted), f"{self.what}, there", f"{self.what}, here", lineterm=""
        )
        return "\n".join(told)


def same(wanted: Value, there: Value) -> bool:
    """Whether what is there holds all that is wanted. Servers add fields of their own, which do not count."""
    return asked_of(wanted, there) == wanted


def asked_of(wanted: Value, there: Value) -> Value:
    """Of what is there, the fields that are wanted."""
    if isinstance(wanted, dict) and isinstance(there, dict):
        return {name: asked_of(value, there[name]) for name, value in wanted.items() if name in there}
    if isinstance(wanted, list) and isinstance(there, list):
        beside: Iterator[tuple[Value, Value]] = zip(wanted, there, strict=False)
        return [asked_of(*pair) for pair in beside] + list(there[len(wanted) :])
    return there


def _lines(value: Value) -> Sequence[str]:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False).splitlines()

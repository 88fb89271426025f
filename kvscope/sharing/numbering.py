"""The processes of several recordings in one file, each under a number for each recording that holds it.

Readers know a process by what it is, not by its number: what two recordings hold of it they count once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvscope.sources.gathering import Identity, identity


@dataclass
class _Member:
    """A process."""

    number: int
    source: str
    """Where it was met first."""
    earlier: int = 0
    before: int = 0
    lost: int = 0
    lost_before: int = 0
    """In parts before this one."""


class Numbering:
    """Parts of one recording tell of their own time alone: together they are told of as the whole would have been."""

    def __init__(self) -> None:
        self._members: dict[tuple[Identity, str], _Member] = {}
        """(who, in which recording)"""
        self._numbers: dict[int, int] = {}
        self._parts: set[tuple[str, str]] = set()
        self._source, self._recording = "", ""

    def __len__(self) -> int:
        return len(self._members)

    def begin(self, source: str, head: Mapping[str, Any]) -> None:
        """A file, that says `head` of itself."""
        self._source, self._numbers = source, {}
        part = str(head.get("recording")), str(head.get("part"))
        alone = "recording" not in head or part in self._parts
        self._recording = f"file {source}" if alone else part[0]
        self._parts.add(part)
        for member in self._members.values():
            member.lost_before = member.lost

    def tell(self, process: int, info: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        """(its number, what holds for all of its recording up to here)"""
        who = identity(info), self._recording
        member = self._members.setdefault(who, _Member(len(self._members), self._source))
        self._numbers[process] = member.number
        member.lost = member.lost_before + int(info.get("lost", 0))
        if member.source == self._source:
            member.earlier, member.before = int(info.get("earlier", 0)), int(info.get("before", 0))
        said = {**info, "lost": member.lost, "earlier": member.earlier, "before": member.before}
        return member.number, said if member.before else {name: said[name] for name in said if name != "before"}

    def of(self, process: int) -> int:
        """The number of a process that was told of."""
        return self._numbers[process]

"""What an aggregator knows of agents and of processes: which batch is next, and what is missing, to the record.

Pure: no clock, no file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """What a batch is to the aggregator."""

    NEXT = "next"
    DUPLICATE = "duplicate"
    AFTER_GAP = "after a gap"


@dataclass
class Run:
    """One run of an agent: its batches are numbered from 1."""

    part: int = 0
    """the last that was taken"""
    missing: int = 0
    """batches that were never seen, though later ones were"""
    name: str = ""
    boot_id: str = ""
    rings: dict[str, Any] = field(default_factory=dict)
    """how far they were read, by the last mark"""

    def judge(self, part: int) -> Verdict:
        """A batch with that number."""
        if part <= self.part:
            return Verdict.DUPLICATE
        return Verdict.NEXT if part == self.part + 1 else Verdict.AFTER_GAP

    def take(self, part: int) -> None:
        """It was taken."""
        self.missing += part - self.part - 1
        self.part = part

    def told(self) -> dict[str, Any]:
        """For a mark."""
        return {
            "part": self.part,
            "missing": self.missing,
            "name": self.name,
            "boot_id": self.boot_id,
            "rings": self.rings,
        }


@dataclass
class Account:
    """One process: how many records its rings have taken, and how many of them came."""

    number: int
    """in recordings"""
    begun: int
    """taken by its rings when this aggregator's run first heard of it"""
    published: int
    """taken by now"""
    before: int = 0
    """came in runs before"""
    held: int = 0
    """came since"""
    overlap: int = 0
    """records more than its rings can have held: they came twice, in batches with different numbers"""
    ended: bool = False

    @property
    def lost(self) -> int:
        """Taken by its rings since then, and never to be had."""
        return max(self.published - self.begun - self.held, 0)

    def take(self, begun: int, held: int, lost: int) -> None:
        """A batch, at whose begin its rings had taken `begun`, with so many; so many were overwritten meanwhile."""
        self.overlap += min(max(self.published - begun, 0), held)
        self.published = max(self.published, begun + held + lost)
        self.held += held

    def said(self, info: Mapping[str, Any]) -> dict[str, Any]:
        """What is to be recorded of the process, by what the batch said of it."""
        return dict(info) | {"earlier": self.begun, "lost": self.lost, "before": self.before}

    def told(self) -> list[Any]:
        """For a mark."""
        return [self.number, self.published, self.before + self.held, self.ended]


def account_of(told: list[Any]) -> Account:
    """What a mark of a run before says: it goes on from there."""
    number, published, held, ended = told
    return Account(int(number), int(published), int(published), int(held), ended=bool(ended))


def opened(number: int, info: Mapping[str, Any], dropped: int) -> Account:
    """A process that is heard of for the first time. dropped: its records that went in the agent's spool."""
    begun, before = int(info.get("earlier", 0)), int(info.get("before", 0))
    gone = min(before, dropped)
    return Account(number, begun - gone, begun, before - gone)

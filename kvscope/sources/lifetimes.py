"""Who had recorded by a given moment, and what was known of them then."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kvscope.model.events import Process
from kvscope.sources.gathering import Identity, identity, merged
from kvscope.sources.records import process_of

NEVER = 2**62
ALWAYS = -NEVER


@dataclass
class _Lifetime:
    """One process. What is said of it in several files holds together."""

    since: int = NEVER
    """ns: its first record"""
    told: dict[int, list[tuple[int, Process]]] = field(default_factory=dict)
    """file -> (from which time on, what was known)"""
    infos: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    """file -> what it says last"""

    def at(self, until: int) -> Process:
        """What was known at a time; before anything was, what came first."""
        known = [told[at - 1] for told in self.told.values() if (at := bisect_right(told, until, key=_when))]
        if not known:
            return min((told[0] for told in self.told.values()), key=_when)[1]
        process = max(known, key=_when)[1]
        if len(known) == 1:
            return process
        # At most so many are missing: what one file missed, another may hold.
        lost, earlier = sum(each.lost for _, each in known), min(each.earlier for _, each in known)
        return replace(process, lost=lost, earlier=earlier)


class Lifetimes:
    """The processes of some files, numbered in the order in which they were found."""

    def __init__(self) -> None:
        self._index: dict[Identity, int] = {}
        self._each: list[_Lifetime] = []
        self._files: dict[int, tuple[str, str]] = {}

    def __len__(self) -> int:
        return len(self._each)

    def file(self, file: int, recording: str, part: str) -> None:
        """A file is a part of a recording: its parts hold nothing twice."""
        self._files[file] = recording, part

    def tell(self, info: Mapping[str, Any], file: int, t: int) -> int:
        """Take what a file says of a process from time `t` on; returns the process's number."""
        number = self._index.setdefault(identity(info), len(self._each))
        if number == len(self._each):
            self._each.append(_Lifetime())
        self._each[number].infos[file] = info
        told = self._each[number].told.setdefault(file, [])
        process = process_of(info)
        if not told or told[-1][1] != process:
            told.append((t, process))
        return number

    def seen(self, number: int, t: int) -> None:
        """It recorded at `t`."""
        self._each[number].since = min(self._each[number].since, t)

    def in_several(self, number: int) -> bool:
        """Whether more than one file may hold what it recorded at a time."""
        files = [self._files.get(file, (f"file {file}", "")) for file in self._each[number].told]
        return len(set(files)) < len(files) or len({recording for recording, _ in files}) > 1

    def merged(self, held: Mapping[tuple[int, int], int], distinct: Sequence[int]) -> tuple[Process, ...]:
        """All of them, as all files together have it. held: (process, file) -> records; distinct: by process."""
        return tuple(
            merged(list(each.infos.values()), [held.get((number, file), 0) for file in each.infos], found)
            for number, (each, found) in enumerate(zip(self._each, distinct, strict=True))
        )

    def until(self, t: int) -> tuple[tuple[Process, ...], np.ndarray]:
        """(those that had recorded by `t`, and those that never did; where among them each number is, shape (all,))."""
        there = np.array([each.since <= t or each.since == NEVER for each in self._each], bool)
        processes = tuple(each.at(t) for each, is_there in zip(self._each, there, strict=True) if is_there)
        return processes, (np.cumsum(there) - there).astype(np.uint32)


def _when(told: tuple[int, Process]) -> int:
    return told[0]

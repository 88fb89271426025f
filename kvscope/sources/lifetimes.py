"""Who had recorded by a given moment, and what was known of them then."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from kvscope.model.events import Gap, Process
from kvscope.sources.gathering import Identity, identity
from kvscope.sources.merging import Said, gaps_between, merged, under_other_ids
from kvscope.sources.records import process_of

NEVER = 2**62
ALWAYS = -NEVER
Place = tuple[int, int]
"""(file, number of the process there): a file may hold a process under several, of recordings that were put together"""


@dataclass
class _Lifetime:
    """One process. What is said of it in several files holds together."""

    spans: dict[Place, tuple[int, int]] = field(default_factory=dict)
    """place -> (ns, ns): its first record there and its last"""
    held: dict[Place, int] = field(default_factory=dict)
    """place -> its records there"""
    told: dict[Place, list[tuple[int, Process]]] = field(default_factory=dict)
    """place -> (from which time on, what was known)"""
    infos: dict[Place, Mapping[str, Any]] = field(default_factory=dict)
    """place -> what is said there last"""

    @property
    def since(self) -> int:
        """ns: its first record"""
        return min((first for first, _ in self.spans.values()), default=NEVER)

    @cached_property
    def said(self) -> list[Said]:
        """What the files say of it, once all were gone through."""
        return [
            Said(info, self.held.get(place, 0), self.spans.get(place), place[0]) for place, info in self.infos.items()
        ]

    @cached_property
    def gaps(self) -> tuple[Gap, ...]:
        """What no file holds, once all were gone through."""
        return gaps_between(self.said)

    def at(self, until: int) -> Process:
        """What was known at a time; before anything was, what came first."""
        gaps = tuple(gap for gap in self.gaps if gap.end <= until)
        return replace(self._told_by(until), gaps=gaps) if gaps else self._told_by(until)

    def _told_by(self, until: int) -> Process:
        known = [told[at - 1] for told in self.told.values() if (at := bisect_right(told, until, key=_when))]
        if not known:
            return min((told[0] for told in self.told.values()), key=_when)[1]
        process = max(known, key=_when)[1]
        if len(known) == 1:
            return process
        # At most so many are missing: what one file missed, another may hold.
        oldest = min((each for _, each in known), key=lambda each: each.earlier + each.before)
        lost = sum(each.lost for _, each in known)
        return replace(process, lost=lost, earlier=oldest.earlier, before=oldest.before)


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

    def tell(self, info: Mapping[str, Any], place: Place, t: int) -> int:
        """Take what a file says of a process from time `t` on; returns the process's number."""
        number = self._index.setdefault(identity(info), len(self._each))
        if number == len(self._each):
            self._each.append(_Lifetime())
        self._each[number].infos[place] = info
        told = self._each[number].told.setdefault(place, [])
        process = process_of(info)
        if not told or told[-1][1] != process:
            told.append((t, process))
        return number

    def seen(self, number: int, place: Place, span: tuple[int, int], count: int) -> None:
        """A file holds so many records of it, from the first time to the last."""
        each = self._each[number]
        first, last = each.spans.get(place, span)
        each.spans[place] = min(first, span[0]), max(last, span[1])
        each.held[place] = each.held.get(place, 0) + count

    def in_several(self, number: int) -> bool:
        """Whether more than one file may hold what it recorded at a time."""
        files = [self._files.get(file, (f"file {file}", "")) for file, _ in self._each[number].told]
        return len(set(files)) < len(files) or len({recording for recording, _ in files}) > 1

    @property
    def held(self) -> int:
        """Records of all in all files."""
        return sum(sum(each.held.values()) for each in self._each)

    @property
    def under_other_ids(self) -> int:
        """Records that several files hold under ids written in different ways."""
        return sum(under_other_ids(each.said) for each in self._each)

    def merged(self, distinct: Sequence[int]) -> tuple[Process, ...]:
        """All of them, as all files together have it. distinct: records of each"""
        return tuple(merged(each.said, found) for each, found in zip(self._each, distinct, strict=True))

    def until(self, t: int) -> tuple[tuple[Process, ...], np.ndarray]:
        """(those that had recorded by `t`, and those that never did; where among them each number is, shape (all,))."""
        there = np.array([each.since <= t or each.since == NEVER for each in self._each], bool)
        processes = tuple(each.at(t) for each, is_there in zip(self._each, there, strict=True) if is_there)
        return processes, (np.cumsum(there) - there).astype(np.uint32)


def _when(told: tuple[int, Process]) -> int:
    return told[0]

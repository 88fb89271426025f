"""Several sources -> one set of events: a process seen twice is one process, a record seen twice is one record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kvscope.model.events import Events, Process
from kvscope.sources.merging import Said, merged, under_other_ids
from kvscope.sources.records import RECORD, Rows, low64, process_of, to_rows
from kvscope.sources.routers.log import RouterLog

Identity = tuple[str, ...]


@dataclass
class Seen:
    """One process in one source."""

    info: Mapping[str, Any]
    parts: list[Rows] = field(default_factory=list)
    """dtype RECORD"""
    file: object = None
    """Where that is; None: nowhere else"""

    @property
    def held(self) -> int:
        """Records of it that are in this source."""
        return sum(map(len, self.parts))


class Gathering:
    """Takes sources one after the other. `events` is what they say together."""

    def __init__(self) -> None:
        self._processes: dict[Identity, list[Seen]] = {}
        self._others: list[Events] = []
        self._texts: dict[int, str] = {}
        self.duplicates = 0
        """Records that more than one source held. Known once `events` was called."""
        self.under_other_ids = 0
        """Of these, some are not known to be the same, since their requests' ids were written in different ways."""
        self.bare = False
        """Whether a recording holds no event: it was cut before the first, or nothing happened while it was made."""
        self.routers: list[RouterLog] = []
        """What other projects' routers wrote: put among the events once it is known what clocks those are on."""

    def process(self, info: Mapping[str, Any], file: object = None) -> Seen:
        """A process of the source now being read, by what is said of it there."""
        seen = Seen(info, file=file)
        self._processes.setdefault(identity(info), []).append(seen)
        return seen

    @property
    def recorded(self) -> int:
        """Processes that were read record by record. They come first; of others, their source says what it lacks."""
        return len(self._processes)

    def texts(self, pairs: Iterable[tuple[bytes, str]]) -> None:
        """Texts with their 16-byte keys."""
        self._texts.update((low64(key), text) for key, text in pairs)

    def add(self, events: Events) -> None:
        """A source whose records cannot be told apart but by what they say: taken whole."""
        self._others.append(events)

    def events(self) -> Events:
        """All together. A process's index is the order in which it was first seen."""
        self.duplicates = self.under_other_ids = 0
        parts: list[tuple[int, Rows]] = []
        processes: list[Process] = []
        for index, seen in enumerate(self._processes.values()):
            found, process = self._merged(seen)
            parts += [(index, part) for part in found]
            processes.append(process)
        rows = [to_rows(parts)]
        for other in self._others:
            rows.append(other.rows.copy())
            rows[-1]["process"] += len(processes)
            processes += other.processes
        texts = {key: text for other in self._others for key, text in other.texts.items()}
        impossible = sum(other.impossible for other in self._others)
        every = np.concatenate(rows) if len(rows) > 1 else rows[0]
        return Events(every, tuple(processes), texts | self._texts, impossible)

    def _merged(self, seen: list[Seen]) -> tuple[list[Rows], Process]:
        if len(seen) == 1:
            return seen[0].parts, process_of(seen[0].info)
        found = np.concatenate([np.empty(0, RECORD), *(part for each in seen for part in each.parts)])
        distinct = without_twins(found)
        self.duplicates += len(found) - len(distinct)
        said = [_said(each) for each in seen]
        self.under_other_ids += under_other_ids(said)
        return [distinct], merged(said, len(distinct))


def _said(seen: Seen) -> Said:
    times = [part["t"][part["moment"] != 0] for part in seen.parts]
    some = [each for each in times if len(each)]
    span = (min(int(each.min()) for each in some), max(int(each.max()) for each in some)) if some else None
    return Said(seen.info, seen.held, span, seen.file)


def identity(info: Mapping[str, Any]) -> Identity:
    """The same for the same process, whoever read it: host, pid there, start."""
    return tuple(str(info.get(name)) for name in ("boot_id", "pid", "start_ticks"))


def without_twins(found: Rows) -> Rows:
    """shape (n,), dtype RECORD, of one process: each record once. Twins have every byte alike, so that rings,
    which count their records alike, are told apart by time and content."""
    order = np.lexsort((found["sequence"], found["t"]))
    ordered = found[order]
    whole = ordered.view(np.dtype((np.void, RECORD.itemsize)))
    twin = np.zeros(len(ordered), bool)
    twin[1:] = whole[1:] == whole[:-1]
    return ordered[~twin]

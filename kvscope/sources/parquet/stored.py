"""A Parquet folder by time, none of it held but the row groups that were read last."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from kvscope.model.errors import InputError
from kvscope.model.events import EVENT, Events, Process, picked, stacked
from kvscope.probe.vocabulary import MOMENT_CODE
from kvscope.sources.bytime import FAR, SPAN, Spans, text_keys
from kvscope.sources.parquet.reading import Folder

GROUPS = 3
"""Row groups that are kept as rows: who goes on in small steps reads each once."""
PIECE = np.dtype([("process", "i8"), *SPAN.descr, ("group", "i8")])
_STARTED = MOMENT_CODE["started"]


class Stored:
    """Row groups are in the order of time; those of neighbours may share an instant."""

    def __init__(self, path: Path) -> None:
        """InputError: it is no whole folder of kvscope's, or holds no event."""
        self._folder = Folder(path)
        self.notes, self.impossible = self._folder.notes, self._folder.manifest.impossible
        self._group = lru_cache(GROUPS)(self._folder.rows)
        try:
            table = self._table()
            if not len(table):
                raise InputError(f"there is no event in {path}; name another")
            self._spans = Spans(table)
            self.begin, self.end = self._begin(), int(table["last"].max())
        except BaseException:
            self.close()
            raise

    @property
    def processes(self) -> tuple[Process, ...]:
        """As `ByTime` has it."""
        return self._folder.processes

    def _table(self) -> np.ndarray:
        told = [(*each, group) for group in range(len(self._folder)) for each in self._folder.spans(group)]
        table = np.array(told, PIECE)
        return table[np.argsort(table["first"], kind="stable")]

    def _begin(self) -> int:
        """The first event; what an engine says of itself may carry no time."""
        first, groups = self._spans.table["first"], self._spans.table["group"]
        found = [int(first[first != 0].min())] if (first != 0).any() else []
        for group in np.unique(groups[first == 0]).tolist():
            rows = self._group(group)[0]
            timed = rows["t"][(rows["moment"] != _STARTED) | (rows["t"] != 0)]
            found += [int(timed.min())] if len(timed) else []
        return min(found, default=0)

    def pieces(self, after: int, until: int) -> np.ndarray:
        """As `ByTime` has it."""
        return self._spans.pieces(after, until)

    def between(self, after: int, until: int) -> Events:
        """As `ByTime` has it. What was lost is told from the beginning on: when it was lost is not kept."""
        rows, texts = self._rows(after, until)
        there = np.array([first is None or first <= until for first, _ in self._folder.reaches], bool)
        rows["process"] = ((np.cumsum(there) - there).astype(np.uint32))[rows["process"]]
        processes = tuple(each for each, is_there in zip(self.processes, there, strict=True) if is_there)
        return Events(rows, processes, texts)

    @property
    def reaches(self) -> np.ndarray:
        """As `ByTime` has it."""
        told = [(FAR, -FAR) if first is None or last is None else (first, last) for first, last in self._folder.reaches]
        return np.array(told, np.int64).reshape(-1, 2)

    def whole(self, after: int, until: int, which: np.ndarray | None = None) -> Events:
        """As `ByTime` has it."""
        rows, texts = self._rows(after, until, which)
        return Events(rows, self.processes, texts)

    def settled(self, found: np.ndarray) -> tuple[tuple[Process, ...], tuple[str, ...]]:
        """As `ByTime` has it."""
        return self.processes, self.notes

    def _rows(self, after: int, until: int, which: np.ndarray | None = None) -> tuple[np.ndarray, dict[int, str]]:
        found, texts = [np.empty(0, EVENT)], dict[int, str]()
        for group in self._groups(after, until, which):
            rows, known = self._group(group)
            wanted = (rows["t"] > after) & (rows["t"] <= until)
            found.append(picked(rows, wanted if which is None else wanted & which[rows["process"]]))
            texts |= {key: known[key] for key in text_keys(found[-1]).tolist() if key in known}
        return stacked(found), texts

    def _groups(self, after: int, until: int, which: np.ndarray | None = None) -> list[int]:
        pieces = self._spans.table[self._spans.overlapping(after, until)]
        if which is not None:
            pieces = pieces[(pieces["process"] < 0) | which[pieces["process"]]]
        return [int(group) for group in np.unique(pieces["group"])]

    def next_after(self, t: int) -> int | None:
        """As `ByTime` has it."""
        first = self._spans.table["first"]
        later = int(np.searchsorted(first, t, "right"))
        found = [int(first[later])] if later < len(first) else []
        for group in self._groups(t, t):  # those that began before and reach beyond
            times = self._group(group)[0]["t"]
            found += [int(times[times > t].min())] if (times > t).any() else []
        return min(found, default=None)

    def close(self) -> None:
        """Let go of the file."""
        self._folder.close()

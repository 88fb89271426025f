"""A Parquet folder -> events, all at once or by row groups."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kvscope.model.errors import InputError
from kvscope.model.events import EVENT, Events, Gap, Process
from kvscope.sources.parquet.columns import EVENTS, NEW, PROCESSES
from kvscope.sources.parquet.manifest import DO, opened, read_manifest
from kvscope.sources.parquet.rows import from_columns, missing_columns


class Folder:
    """One that is whole, and open."""

    def __init__(self, path: Path) -> None:
        """InputError: it is not whole, or not of kvscope."""
        self.path = path
        self.manifest = read_manifest(path)
        self.notes = self.manifest.notes
        with _told(path), opened(path, PROCESSES.file, self.manifest) as file:
            there = pq.ParquetFile(file)
            names = [name for name in PROCESSES.names if name not in NEW or name in there.schema_arrow.names]
            table = there.read(columns=names).to_pylist()
            self.processes = tuple(map(_process, table))
        self.reaches: list[tuple[int | None, int | None]] = [(row["first_ns"], row["last_ns"]) for row in table]
        """ns, by process: its first event and its last"""
        self._file = opened(path, EVENTS.file, self.manifest)
        try:
            with _told(path):
                self._parquet = pq.ParquetFile(self._file)
                wrong = list(missing_columns(self._parquet.schema_arrow))
                if wrong:
                    raise ValueError(f"columns are missing or of another type: {', '.join(wrong)}")
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        """Row groups, in the order of time."""
        return int(self._parquet.num_row_groups)

    def count(self, group: int) -> int:
        """Events of a row group."""
        return int(self._parquet.metadata.row_group(group).num_rows)

    def spans(self, group: int) -> list[tuple[int, int, int, int]]:
        """(process, first time, last, count) of what a row group holds; ns. InputError: it cannot be read.

        Process -1 is all of them, where they have one clock: then it is told without looking.
        """
        with _told(self.path):
            if len({process.host for process in self.processes} - {""}) > 1:
                return _spans(self._parquet.read_row_group(group, columns=["t", "process"]))
            told = self._parquet.metadata.row_group(group).column(0).statistics
            if told is None or not told.has_min_max:
                raise ValueError("a row group does not tell its times")
            return [(-1, int(told.min), int(told.max), self.count(group))]

    def rows(self, group: int) -> tuple[np.ndarray, dict[int, str]]:
        """(rows of dtype EVENT, the texts they name) of a row group. InputError: it cannot be read."""
        with _told(self.path):
            rows, texts = from_columns(self._parquet.read_row_group(group, columns=list(EVENTS.names)))
            if len(rows) != self.count(group):
                raise ValueError("a row group is not as long as it says")
            if len(rows) and rows["process"].max() >= len(self.processes):
                raise ValueError("events of a process that is not told")
            return rows, texts

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def read_folder(path: Path) -> tuple[Events, tuple[str, ...]]:
    """(all its events, notes). InputError: as `Folder`."""
    with Folder(path) as folder:
        counts = [folder.count(group) for group in range(len(folder))]
        rows = np.empty(sum(counts), EVENT)
        texts: dict[int, str] = {}
        at = 0
        for group, count in enumerate(counts):
            rows[at : at + count], more = folder.rows(group)
            texts |= more
            at += count
        return Events(rows, folder.processes, texts, folder.manifest.impossible), folder.notes


def _spans(table: pa.Table) -> list[tuple[int, int, int, int]]:
    t, process = (table.column(name).to_numpy() for name in ("t", "process"))
    found = []
    for each in np.unique(process).tolist():
        mine = t[process == each]
        found.append((each, int(mine.min()), int(mine.max()), len(mine)))
    return found


def _process(row: dict[str, Any]) -> Process:
    if None in (row[name] for name in ("engine", "engine_id", "host", "pid", "lost", "earlier", "note")):
        raise ValueError("not all is told of a process")
    return Process(
        engine=row["engine"],
        engine_id=row["engine_id"],
        host=row["host"],
        pid=row["pid"],
        started=json.loads(row["started"]),
        lost=row["lost"],
        earlier=row["earlier"],
        note=row["note"],
        ended=row["ended"],
        off=row["off"],
        wall_ns=row["wall_offset_ns"],
        gaps=tuple(Gap(**each) for each in json.loads(row.get("gaps") or "[]")),
    )


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """What goes wrong in here becomes a sentence."""
    try:
        yield
    except (pa.ArrowException, ValueError, LookupError, TypeError, OverflowError, OSError) as error:
        if isinstance(error, InputError):
            raise
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path} is not as kvscope writes it ({reason}): {DO}") from None

"""The sink of `kvscope export --parquet`: a folder of tables."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kvscope import __version__
from kvscope.export.parquet.engine_columns import Counted, load_columns, process_columns, step_columns
from kvscope.export.parquet.folder import Folder
from kvscope.export.parquet.request_columns import request_columns
from kvscope.export.passage import Part
from kvscope.model.counting import count
from kvscope.model.events import Process, stacked
from kvscope.model.splits import Splits, concat
from kvscope.sources.parquet.columns import EVENTS, LOADS, PROCESSES, REQUESTS, STEPS, Kind, Table
from kvscope.sources.parquet.manifest import Entry, Manifest
from kvscope.sources.parquet.rows import schema_of, to_columns

EVENTS_MOST, REQUESTS_MOST = 50_000, 20_000
"""Rows that are gathered until a row group is written."""
LEVEL = 2
BATCH = 1 << 16
"""Rows of which a column is encoded in one go."""
FEW, MANY = (Kind.WORD, Kind.SMALL, Kind.NUMBER), ("step",)
"""What has few different values in a row group, and what has not all the same."""
DICTIONARY_BYTES = 1 << 26
"""A row group's ids, each once, must fit: where they do not, each is written again and again."""


class Writer:
    """A table that is being written."""

    def __init__(self, folder: Folder, table: Table) -> None:
        self.table, self.rows = table, 0
        self._schema, self._file = schema_of(table), folder.file(table.file)
        self._writer = pq.ParquetWriter(
            self._file,
            self._schema,
            compression="zstd",
            compression_level=LEVEL,
            write_batch_size=BATCH,
            use_dictionary=[each.name for each in table.columns if each.kind in FEW and each.name not in MANY],
            column_encoding={each.name: "DELTA_BINARY_PACKED" for each in table.columns if each.kind is Kind.INSTANT},
            dictionary_pagesize_limit=DICTIONARY_BYTES,
            write_statistics=[each.name for each in table.columns if each.kind is Kind.INSTANT],
        )

    def write(self, columns: dict[str, pa.Array]) -> None:
        """A row group."""
        table = pa.table([columns[name] for name in self.table.names], schema=self._schema)
        if len(table):
            self.rows += len(table)
            self._writer.write_table(table, row_group_size=len(table))

    def close(self) -> Entry:
        """All was written."""
        self._writer.close()
        return Entry(self._file.size, self._file.crc32, self.rows)

    def abandon(self) -> None:
        """It will not be."""
        with suppress(Exception):  # the disk that is full does not take the end either
            self._writer.close()


class ParquetSink:
    """Events, requests, steps, loads and processes."""

    def __init__(self, path: Path, force: bool) -> None:
        """InputError: the folder is there already (and not `force`), or cannot be written."""
        self._folder = Folder(path, force)
        self._writers: dict[str, Writer] = {}
        try:
            for table in (EVENTS, REQUESTS, STEPS, LOADS, PROCESSES):
                self._writers[table.name] = Writer(self._folder, table)
        except BaseException:
            self.abandon()
            raise
        self._rows: list[np.ndarray] = []
        self._texts: dict[int, str] = {}
        self._over: list[Splits] = []
        self._processes: tuple[Process, ...] = ()
        self._counted = Counted.none()
        self._notes: tuple[str, ...] = ()
        self._impossible = self._given_up = 0

    def take(self, part: Part) -> None:
        """As `Sink` has it."""
        self._processes, self._notes = part.events.processes, part.notes
        self._impossible += part.events.impossible
        self._given_up += part.given_up
        self._rows.append(part.events.rows)
        self._texts |= part.events.texts
        self._over += part.over
        if sum(map(len, self._rows)) >= EVENTS_MOST:
            self._write_events()
        if sum(map(len, self._over)) >= REQUESTS_MOST:
            self._write_requests()

    def _write_events(self) -> None:
        rows = stacked(self._rows) if len(self._rows) > 1 else self._rows[0]
        texts, processes = self._texts, self._processes
        self._rows, self._texts = [], {}
        self._counted.take(rows, len(processes))
        self._writers[EVENTS.name].write(to_columns(rows, processes, texts))
        self._writers[STEPS.name].write(step_columns(rows, processes))
        self._writers[LOADS.name].write(load_columns(rows, processes))

    def _write_requests(self) -> None:
        over, self._over = concat(self._over), []
        self._writers[REQUESTS.name].write(request_columns(over))

    def finish(self) -> str:
        """As `Sink` has it."""
        if self._rows:
            self._write_events()
        if self._over:
            self._write_requests()
        self._writers[PROCESSES.name].write(process_columns(self._processes, self._counted))
        entries = {writer.table.file: writer.close() for writer in self._writers.values()}
        self._folder.place(Manifest(entries, self._notes, self._impossible, __version__))
        size = entries[EVENTS.file].bytes / max(1, entries[EVENTS.file].rows)
        events, requests = (count(self._writers[table.name].rows, table.name[:-1]) for table in (EVENTS, REQUESTS))
        told = f"{events} ({size:.1f} bytes each) and {requests} written to {self._folder.path}"
        if self._given_up:
            told += f"; {self._given_up:,} of them as they stood when nothing was heard of them any more"
        return told

    def abandon(self) -> None:
        """As `Sink` has it."""
        for writer in self._writers.values():
            writer.abandon()
        self._folder.abandon()

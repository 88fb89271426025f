"""The last minutes as they were read, so that they can be saved when something was seen. Bounded."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kvscope.model.counting import count
from kvscope.model.errors import InputError
from kvscope.model.invocation import command
from kvscope.probe.recording import Writer
from kvscope.sources.records import Rows, low64
from kvscope.sources.rings import Told

MOST_BYTES = 64 << 20
"""Of records: 600,000 events, ten minutes at a thousand a second."""
MOST_TEXTS = 50_000
"""Texts are looked through when there are twice as many as the last look left, and this many at least."""


class Kept:
    """Raw records and texts, newest last."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._parts: deque[tuple[int, Rows]] = deque()
        self._bytes = 0
        self._texts: dict[bytes, str] = {}
        self._look_at = MOST_TEXTS
        self._lock = threading.Lock()  # one thread reads on while another saves

    def add(self, process: int, records: Rows, texts: Told) -> None:
        """What one process wrote since it was read last."""
        with self._lock:
            if len(records):
                self._parts.append((process, records))
                self._bytes += records.nbytes
            self._texts.update(texts)
            while self._bytes > self._most_bytes and len(self._parts) > 1:
                self._bytes -= self._parts.popleft()[1].nbytes
            if len(self._texts) > self._look_at:
                self._texts = dict(_named(self._texts, self._parts))
                self._look_at = max(MOST_TEXTS, 2 * len(self._texts))

    def save(self, folder: Path, processes: Mapping[int, Mapping[str, Any]]) -> str:
        """Write a recording into `folder`; returns a sentence. InputError: nothing there, or not to be written."""
        if not self._parts:
            raise InputError("nothing was recorded yet, so there is nothing to save")
        path = folder / f"kvscope-{time.strftime('%Y%m%d-%H%M%S')}.kvs"
        try:
            with path.open("xb") as file:
                events = self._write(Writer(file), processes)
        except OSError as error:
            raise InputError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from None
        return f"saved {count(events, 'event')} to {path}; next: {command()} report {path.name}"

    def _write(self, writer: Writer, processes: Mapping[int, Mapping[str, Any]]) -> int:
        with self._lock:
            parts, texts = list(self._parts), dict(self._texts)
        for number, info in processes.items():
            writer.process(number, dict(info))
        writer.texts(list(_named(texts, parts)))
        for process, records in parts:
            writer.records(process, 0, records.tobytes())
        events = sum(len(records) for _, records in parts)
        writer.end({"processes": len(processes), "events": events, "lost": 0})
        return events


def _named(texts: Mapping[bytes, str], parts: Iterable[tuple[int, Rows]]) -> Iterator[tuple[bytes, str]]:
    """Of the texts, those that the records name: as a request, or in one of their values."""
    words = [np.empty(0, np.uint64)]
    for _, records in parts:
        values = np.ascontiguousarray(records["values"]).view(np.uint64)
        words += [records["request"], records["peer"], values.ravel()]
    named = set(np.unique(np.concatenate(words)).tolist())
    return ((key, text) for key, text in texts.items() if low64(key) in named)

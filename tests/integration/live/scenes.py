"""Small recordings by hand: who recorded when, in the order in which a recorder would have written it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from kvscope.probe.recording import Writer
from kvscope.probe.texts import encoded
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE
from kvscope.sources.records import RECORD, Rows, low64

MS = 1_000_000
SECOND = 1000 * MS
BEGIN = 1000 * SECOND
BOOT, REALTIME_NS, MONOTONIC_NS = "b00710c0-host", 1_764_000_000 * SECOND, 50 * SECOND


class Recording:
    """A recording that is being written. A context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open(path, "wb")  # noqa: SIM115
        self._writer = Writer(self._file)
        self._sequences: dict[tuple[int, int], int] = {}

    def process(self, number: int, **more: Any) -> None:
        """Tell of process `number`, engine `eN`."""
        started = {"engine": f"e{number}", "engine_id": f"e{number}-1"}
        clocks = {"realtime_ns": REALTIME_NS, "monotonic_ns": MONOTONIC_NS}
        info = {"boot_id": BOOT, "pid": 100 + number, "start_ticks": 7, "segments": 1, "started": started, "lost": 0}
        self._writer.process(number, info | clocks | more)

    def records(self, number: int, times: Iterable[int], request: str = "", thread: int = 1) -> Rows:
        """One part: an event at each time (ns), with the request's text before it."""
        raw = encoded(request)[1]
        if request:
            self._writer.texts([(raw, request)])
        t = np.array(list(times), np.int64)
        rows = np.zeros(len(t), RECORD)
        begun = self._sequences.get((number, thread), 0)
        self._sequences[number, thread] = begun + len(t)
        rows["sequence"], rows["t"] = np.arange(begun, begun + len(t)) + 1, t
        rows["request"] = low64(raw) if request else 0
        rows["moment"], rows["leg"] = MOMENT_CODE["chunk"], LEG_CODE["prefill"]
        self._writer.records(number, thread, rows.tobytes())
        return rows

    def end(self) -> None:
        """It is whole."""
        self._writer.end({})

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()


def steady(path: Path, seconds: int, per_second: int = 20, numbers: tuple[int, ...] = (0, 1)) -> Path:
    """Each process records evenly; parts span a second, and those of a later process begin before the earlier's end."""
    with Recording(path) as recording:
        for number in numbers:
            recording.process(number)
        for second in range(seconds):
            for number in numbers:
                begin = BEGIN + second * SECOND + number * SECOND // 3
                times = range(begin, begin + SECOND, SECOND // per_second)
                recording.records(number, times, f"cmpl-{number}-{second}")
        recording.end()
    return path

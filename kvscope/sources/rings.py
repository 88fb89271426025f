"""Live rings -> events."""

from __future__ import annotations

from pathlib import Path

from kvscope.model.errors import InputError
from kvscope.model.events import Events, Process
from kvscope.probe.reader import RingError
from kvscope.sources.live import Drained, LiveProcess, LiveRings
from kvscope.sources.records import joined, low64, records, to_rows


class Rings:
    """The rings of a run directory as a growing set of events. InputError if the directory cannot be read."""

    def __init__(self, run_dir: Path | str) -> None:
        self._live = LiveRings(Path(run_dir))

    def poll(self) -> Events:
        """Events and texts since the last poll. The process table is whole each time, and an index never changes."""
        drained = polled(self._live)
        return to_events(drained, tuple(describe(process) for process in self._live.processes))

    @property
    def faults(self) -> tuple[str, ...]:
        """A sentence for each ring file that could not be read."""
        return tuple(self._live.faults.values())


def read_rings(run_dir: Path | str) -> Events:
    """What the rings of a run directory hold now. InputError if the directory cannot be read."""
    return Rings(run_dir).poll()


def polled(live: LiveRings) -> Drained:
    """One poll, its error turned into one for a person."""
    try:
        return live.poll()
    except RingError as error:
        raise InputError(str(error)) from None


def to_events(drained: Drained, processes: tuple[Process, ...]) -> Events:
    """Columns of what was drained."""
    rows = joined([to_rows(records(batch.raw), batch.process) for batch in drained.batches])
    return Events(rows, processes, {low64(key): text for key, text in drained.texts})


def describe(process: LiveProcess) -> Process:
    """The process as events name it."""
    header, started = process.file.header, process.file.started
    return Process(
        engine=str(started.get("engine") or f"pid {header.pid}"),
        engine_id=str(started.get("engine_id") or ""),
        host=header.boot_id[:8],
        pid=header.pid,
        started=started,
        lost=process.lost,
        # A process that records, though less than it should, is no dark one: its losses say the rest.
        note="" if header.segments else header.note,
    )

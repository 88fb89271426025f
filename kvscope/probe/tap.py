"""From a run directory into a recording: every ring drained, each record once."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kvscope.probe.layout import RECORD_BYTES
from kvscope.probe.reader import RingError, RingFile, Segment, list_rings
from kvscope.probe.recording import Writer
from kvscope.probe.vocabulary import THREAD_CODE


@dataclass
class _Reading:
    """How far one process's rings have been read."""

    ring: RingFile
    number: int
    was_there: bool = False
    """When reading began: what its rings had overwritten by then was never to be had."""
    cursors: dict[int, tuple[int, int]] = field(default_factory=dict)
    """segment -> (events, texts) read"""
    events: int = 0
    lost: int = 0
    earlier: int = 0
    texts_lost: int = 0
    told: dict[str, Any] = field(default_factory=dict)
    ended: bool = False


class Tap:
    """Drains the rings of `run_dir` into `writer` at each `poll`; processes may come and go between."""

    def __init__(self, run_dir: Path, writer: Writer) -> None:
        self._run_dir, self._writer = run_dir, writer
        self._readings: dict[Path, _Reading] = {}
        self._begun = False
        self.faults: dict[str, None] = {}
        """What could not be read, each sentence once."""

    @property
    def events(self) -> int:
        """Records drained so far."""
        return sum(reading.events for reading in self._readings.values())

    @property
    def lost(self) -> int:
        """Records overwritten before they were read, or left unfinished, since reading began."""
        return sum(reading.lost for reading in self._readings.values())

    @property
    def earlier(self) -> int:
        """Records overwritten before reading began."""
        return sum(reading.earlier for reading in self._readings.values())

    @property
    def texts_lost(self) -> int:
        """Chunks of texts overwritten before they were read."""
        return sum(reading.texts_lost for reading in self._readings.values())

    @property
    def processes(self) -> int:
        """Processes seen so far."""
        return len(self._readings)

    def poll(self) -> int:
        """Drain what is there now; returns how many records that was. Raises RingError for the directory alone."""
        before = self.events
        self._look()
        for reading in self._readings.values():
            if not reading.ended:
                self._guarded_drain(reading)
        return self.events - before

    def end(self) -> None:
        """Drain once more and say that the recording is whole."""
        self.poll()
        self._writer.end({"processes": self.processes, "events": self.events, "lost": self.lost})

    def _look(self) -> None:
        faults: list[RingError] = []
        for ring in list_rings(self._run_dir, faults, set(self._readings)):
            self._readings[ring.path] = _Reading(ring, len(self._readings), was_there=not self._begun)
        self._begun = True
        self.faults.update(dict.fromkeys(map(str, faults)))

    def _guarded_drain(self, reading: _Reading) -> None:
        try:
            self._drain(reading)
        except RingError as error:
            reading.ended = True
            self.faults[str(error)] = None

    def _drain(self, reading: _Reading) -> None:
        final = not reading.ring.alive  # asked first: what a dead process left is complete
        drained = [self._drain_segment(reading, *item, final) for item in enumerate(reading.ring.segments())]
        reading.was_there = False
        info = self._info(reading, alive=not final)
        if info != reading.told:
            reading.told = info
            self._writer.process(reading.number, info)
        for thread, raw in drained:
            self._writer.records(reading.number, thread, raw)
        reading.ended = final

    def _drain_segment(self, reading: _Reading, index: int, segment: Segment, final: bool) -> tuple[int, bytes]:
        at, texts_at = reading.cursors.get(index, (0, 0))
        raw, at, lost = segment.drain(at, final)
        pairs, texts_at, texts_lost = segment.drain_texts(texts_at, final)
        reading.cursors[index] = (at, texts_at)
        reading.events += len(raw) // RECORD_BYTES
        if reading.was_there:
            reading.earlier += lost
        else:
            reading.lost += lost
        reading.texts_lost += texts_lost
        self._writer.texts(pairs)
        return THREAD_CODE[segment.thread], raw

    @staticmethod
    def _info(reading: _Reading, alive: bool) -> dict[str, Any]:
        ring = reading.ring
        threads = [{"thread": segment.thread, "name": segment.name} for segment in ring.segments()]
        losses = {"lost": reading.lost, "earlier": reading.earlier, "texts_lost": reading.texts_lost}
        return asdict(ring.header) | {"alive": alive, "started": ring.started, "threads": threads} | losses

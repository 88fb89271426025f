"""From a run directory into a recording: every ring drained, each record once.

What is drained is held for a moment, since a part of a few records takes twice the room per record that one
of many does. A recorder that is killed loses what it held, unless the rings still have it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from kvscope.probe.layout import RECORD_BYTES
from kvscope.probe.reader import RingError, RingFile, Segment, list_rings
from kvscope.probe.recording import Writer
from kvscope.probe.vocabulary import THREAD_CODE

HOLD_S = 1.0
"""How long records are held at most, up to the first poll after."""
HOLD_RECORDS = 16384
"""How many are held at most, up to the end of a poll: 1.8 MB."""


@dataclass
class _Reading:
    """How far one process's rings have been read."""

    ring: RingFile
    number: int
    was_there: bool = False
    """When reading began: what its rings had overwritten by then was never to be had."""
    cursors: dict[int, tuple[int, int]] = field(default_factory=dict)
    """segment -> (events, texts) read"""
    held: defaultdict[tuple[int, int], bytearray] = field(default_factory=lambda: defaultdict(bytearray))
    """(segment, role of its thread) -> records not written yet"""
    texts: list[tuple[bytes, str]] = field(default_factory=list)
    """Those not written yet."""
    lost: int = 0
    earlier: int = 0
    texts_lost: int = 0
    info: dict[str, Any] = field(default_factory=dict)
    told: dict[str, Any] = field(default_factory=dict)
    """The `info` that was written last."""
    ended: bool = False


class Tap:
    """Drains the rings of `run_dir` into `writer` at each `poll`; processes may come and go between."""

    def __init__(self, run_dir: Path, writer: Writer, hold_s: float = HOLD_S) -> None:
        self._run_dir, self._writer, self._hold_s = run_dir, writer, hold_s
        self._readings: dict[Path, _Reading] = {}
        self._begun = False
        self._held, self._write_at = 0, 0.0
        self.events = 0
        """Records written so far."""
        self.faults: dict[str, None] = {}
        """What could not be read, each sentence once."""

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
        held = self._held
        self._look()
        for reading in self._readings.values():
            if not reading.ended:
                self._guarded_drain(reading)
        drained = self._held - held
        if self._held >= HOLD_RECORDS or monotonic() >= self._write_at:
            self._write()
        return drained

    def end(self) -> None:
        """Drain once more and say that the recording is whole."""
        self.poll()
        self._write()
        self._writer.end({"processes": self.processes, "events": self.events, "lost": self.lost})

    def _look(self) -> None:
        faults: list[RingError] = []
        try:
            found = list_rings(self._run_dir, faults, set(self._readings))
        except RingError:
            self._write()
            raise
        for ring in found:
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
        for index, segment in enumerate(reading.ring.segments()):
            self._drain_segment(reading, index, segment, final)
        reading.was_there = False
        reading.info = self._info(reading, alive=not final)
        reading.ended = final

    def _drain_segment(self, reading: _Reading, index: int, segment: Segment, final: bool) -> None:
        at, texts_at = reading.cursors.get(index, (0, 0))
        raw, at, lost = segment.drain(at, final)
        pairs, texts_at, texts_lost = segment.drain_texts(texts_at, final)
        reading.cursors[index] = (at, texts_at)
        if reading.was_there:
            reading.earlier += lost
        else:
            reading.lost += lost
        reading.texts_lost += texts_lost
        reading.held[index, THREAD_CODE[segment.thread]] += raw
        reading.texts += pairs
        self._held += len(raw) // RECORD_BYTES

    def _write(self) -> None:
        for reading in self._readings.values():
            self._write_held(reading)
        self._held, self._write_at = 0, monotonic() + self._hold_s

    def _write_held(self, reading: _Reading) -> None:
        """Write the texts, who it is, then the records that use both."""
        self._writer.texts(reading.texts)
        if reading.info != reading.told:
            reading.told = reading.info
            self._writer.process(reading.number, reading.info)
        for (_, thread), raw in reading.held.items():
            self._writer.records(reading.number, thread, bytes(raw))
            self.events += len(raw) // RECORD_BYTES
        reading.texts.clear()
        reading.held.clear()

    @staticmethod
    def _info(reading: _Reading, alive: bool) -> dict[str, Any]:
        ring = reading.ring
        threads = [{"thread": segment.thread, "name": segment.name} for segment in ring.segments()]
        losses = {"lost": reading.lost, "earlier": reading.earlier, "texts_lost": reading.texts_lost}
        return asdict(ring.header) | {"alive": alive, "started": ring.started, "threads": threads} | losses

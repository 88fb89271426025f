"""From a run directory into a recording: every ring drained, each record once.

What is drained is held for a moment, since a part of a few records takes twice the room per record that one
of many does. A recorder that is killed loses what it held, unless the rings still have it.

A mark says how far each ring has been read. Whoever got everything up to one can have the rest from another tap,
each record once, and what was overwritten in between counted.

A ring file is let go once its process has ended and all of it was read: as long as it is mapped or open, removing it
frees no memory. Once it is removed, too, nothing is kept but what it cost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Set
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, TypeAlias

from kvscope.probe.layout import RECORD_BYTES
from kvscope.probe.reader import RingError, RingFile, Segment, open_rings, ring_paths
from kvscope.probe.recording import SEVERAL, Writer
from kvscope.probe.ring import boot_id, clock_pair
from kvscope.probe.vocabulary import THREAD_CODE

Progress: TypeAlias = Mapping[str, Any]
"""ring file's name -> [lost, earlier, texts lost, [[segment's place, event, text], ..]]: how far it has been read"""

HOLD_S = 1.0
"""How long records are held at most, up to the first poll after."""
HOLD_RECORDS = 16384
"""How many are held at most, up to the end of a poll: 1.8 MB."""


def is_progress(entry: object) -> bool:
    """Whether it is what `Progress` has of a ring file."""
    match entry:
        case [int(), int(), int(), list(cursors)]:
            return all(
                isinstance(each, list) and len(each) == 3 and all(isinstance(at, int) and at >= 0 for at in each)
                for each in cursors
            )
    return False


@dataclass
class _Reading:
    """How far one process's rings have been read."""

    ring: RingFile | None
    """None once it has been read to its end."""
    number: int
    was_there: bool = False
    """When reading began: what its rings had overwritten by then was never to be had."""
    cursors: dict[int, tuple[int, int]] = field(default_factory=dict)
    """segment's place -> (events, texts) read"""
    held: defaultdict[tuple[int, int], bytearray] = field(default_factory=lambda: defaultdict(bytearray))
    """(segment's place, role of its thread) -> records not written yet"""
    texts: list[tuple[bytes, str]] = field(default_factory=list)
    """Those not written yet."""
    lost: int = 0
    earlier: int = 0
    texts_lost: int = 0
    info: dict[str, Any] = field(default_factory=dict)
    told: dict[str, Any] = field(default_factory=dict)
    """The `info` that was written last."""

    @property
    def settled(self) -> bool:
        """Whether it was read to its end, and all that is written."""
        return self.ring is None and not self.held and self.info == self.told

    @property
    def progress(self) -> list[Any]:
        """As `Progress` has it."""
        cursors = [[place, *read] for place, read in self.cursors.items()]
        return [self.lost, self.earlier, self.texts_lost, cursors]

    def go_on(self, progress: list[Any]) -> None:
        """Read on from where somebody else came to."""
        self.lost, self.earlier, self.texts_lost, cursors = progress
        self.cursors = {place: (events, texts) for place, events, texts in cursors}
        self.was_there = False

    def take_over(self, other: _Reading) -> None:
        """Count what another one missed as well."""
        self.lost += other.lost
        self.earlier += other.earlier
        self.texts_lost += other.texts_lost


class Tap:
    """Drains the rings of `run_dir` into `writer` at each `poll`; processes may come and go between.

    `since` is what a mark of this host said: each ring that it names is read from there on.
    """

    def __init__(self, run_dir: Path, writer: Writer, hold_s: float = HOLD_S, since: Progress | None = None) -> None:
        self._run_dir, self._writer, self._hold_s = run_dir, writer, hold_s
        self._since = dict(since or {})
        self._readings: dict[Path, _Reading] = {}
        """Of the files that are there, and of those that are gone and not settled."""
        self._gone = _Reading(None, -1)
        """What the other ones missed."""
        self._seen: set[Path] = set()
        self._begun = since is not None
        self._boot_id = boot_id()
        self._held, self._write_at = 0, 0.0
        self.events = 0
        """Records written so far."""
        self.faults: dict[str, None] = {}
        """What could not be read, each sentence once."""

    @property
    def lost(self) -> int:
        """Records overwritten before they were read, or left unfinished, since reading began."""
        return self._gone.lost + sum(reading.lost for reading in self._readings.values())

    @property
    def earlier(self) -> int:
        """Records overwritten before reading began."""
        return self._gone.earlier + sum(reading.earlier for reading in self._readings.values())

    @property
    def texts_lost(self) -> int:
        """Chunks of texts overwritten before they were read."""
        return self._gone.texts_lost + sum(reading.texts_lost for reading in self._readings.values())

    @property
    def held(self) -> int:
        """Records that were read and not written yet."""
        return self._held

    @property
    def processes(self) -> int:
        """Processes seen so far."""
        return len(self._seen)

    @property
    def living(self) -> int:
        """Those of them that have not ended."""
        return sum(reading.ring is not None for reading in self._readings.values())

    def poll(self) -> int:
        """Drain what is there now; returns how many records that was. Raises RingError for the directory alone."""
        held = self._held
        self._look()
        for reading in self._readings.values():
            if reading.ring is not None:
                self._guarded_drain(reading, reading.ring)
        drained = self._held - held
        if self._held >= HOLD_RECORDS or monotonic() >= self._write_at:
            self._write()
        return drained

    def end(self) -> None:
        """Drain once more and say that the recording is whole."""
        self.poll()
        self._write()
        self._writer.end({"processes": self.processes, "events": self.events, "lost": self.lost})

    def mark(self) -> None:
        """Write what is held, and how far that is."""
        self._write()
        monotonic_ns, realtime_ns, _ = clock_pair()
        clocks = {"monotonic_ns": monotonic_ns, "realtime_ns": realtime_ns, "boot_id": self._boot_id}
        self._writer.mark(clocks | {"rings": {path.name: each.progress for path, each in self._readings.items()}})

    def _look(self) -> None:
        faults: list[RingError] = []
        try:
            there = ring_paths(self._run_dir)
        except RingError:
            self._write()
            raise
        for ring in open_rings((path for path in there if path not in self._seen), faults):
            reading = self._readings[ring.path] = _Reading(ring, len(self._seen), was_there=not self._begun)
            self._seen.add(ring.path)
            if ring.path.name in self._since:
                reading.go_on(self._since.pop(ring.path.name))
        self._begun = True
        self._forget(set(there))
        self.faults.update(dict.fromkeys(map(str, faults)))

    def _forget(self, there: Set[Path]) -> None:
        """Keep of files that are gone what they cost. Those of a directory that is gone may have been moved with it."""
        gone = [path for path, each in self._readings.items() if each.settled and path not in there]
        if gone and self._run_dir.exists():
            for path in gone:
                self._gone.take_over(self._readings.pop(path))

    def _guarded_drain(self, reading: _Reading, ring: RingFile) -> None:
        try:
            self._drain(reading, ring)
        except RingError as error:
            reading.ring = None
            self.faults[str(error)] = None

    def _drain(self, reading: _Reading, ring: RingFile) -> None:
        final = not ring.alive  # asked first: what a dead process left is complete
        for segment in ring.segments():
            self._drain_segment(reading, segment, final)
        reading.was_there = False
        reading.info = self._info(reading, ring, alive=not final)
        if final:
            reading.ring = None

    def _drain_segment(self, reading: _Reading, segment: Segment, final: bool) -> None:
        at, texts_at = reading.cursors.get(segment.at, (0, 0))
        raw, at, lost = segment.drain(at, final)
        pairs, texts_at, texts_lost = segment.drain_texts(texts_at, final)
        reading.cursors[segment.at] = (at, texts_at)
        if reading.was_there:
            reading.earlier += lost
        else:
            reading.lost += lost
        reading.texts_lost += texts_lost
        reading.held[segment.at, THREAD_CODE[segment.thread]] += raw
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
        # All threads in one part: it packs a fifth better than one of each.
        raw, threads = b"".join(reading.held.values()), {thread for _, thread in reading.held}
        self._writer.records(reading.number, threads.pop() if len(threads) == 1 else SEVERAL, raw)
        self.events += len(raw) // RECORD_BYTES
        reading.texts.clear()
        reading.held.clear()

    @staticmethod
    def _info(reading: _Reading, ring: RingFile, alive: bool) -> dict[str, Any]:
        threads = [{"thread": segment.thread, "name": segment.name} for segment in ring.segments()]
        losses = {"lost": reading.lost, "earlier": reading.earlier, "texts_lost": reading.texts_lost}
        return asdict(ring.header) | {"alive": alive, "started": ring.started, "threads": threads} | losses

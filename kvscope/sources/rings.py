"""Live rings -> events, as they are written."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kvscope.model.errors import InputError
from kvscope.model.events import Events
from kvscope.probe.reader import RingError, RingFile, list_rings
from kvscope.sources.records import Rows, process_of, records, to_rows

Told = list[tuple[bytes, str]]
"""16-byte key, text"""

AHEAD = 0.25
"""What is new may fill so much of a ring before it is read again, at the pace at which it was last filled."""
SOONEST_S, LATEST_S = 0.05, 0.5
"""Bounds of that time: a pace may change."""


@dataclass
class RingReading:
    """One process's ring file, and how far it has been read."""

    file: RingFile | None
    """None once it has been read to its end: as long as it is mapped, removing it frees no memory."""
    cursors: list[list[int]] = field(default_factory=list)
    """Per ring: next event, next chunk of text."""
    was_there: bool = False
    """When reading began: what its rings had overwritten by then was never to be had."""
    overwritten: int = 0
    earlier: int = 0
    filled: float = 0.0
    """How much of the room of its fullest ring was new, when it was drained last."""
    ended: bool = False
    """Dead, and drained to its end."""
    _last: dict[str, Any] = field(default_factory=dict)
    """what was to be said of it at its end"""

    def drain(self) -> tuple[Rows, Told]:
        """(new records, shape (n,), dtype RECORD; texts told since). RingError: the file is damaged."""
        assert self.file is not None
        # Asked first: what a process published before it died is there when its rings are read after.
        dead = not self.file.alive
        found: list[bytes] = []
        texts: Told = []
        self.filled = 0.0
        for index, segment in enumerate(self.file.segments()):
            if index == len(self.cursors):
                self.cursors.append([0, 0])
            cursor = self.cursors[index]
            before = cursor[0]
            raw, cursor[0], lost = segment.drain(cursor[0], dead)
            told, cursor[1], _ = segment.drain_texts(cursor[1], dead)
            if self.was_there:
                self.earlier += lost
            else:
                self.overwritten += lost
            self.filled = max(self.filled, (cursor[0] - before) / segment.events.capacity)
            found.append(raw)
            texts += told
        self.was_there = False
        if dead:
            self.end()
        return records(b"".join(found)), texts

    def end(self) -> None:
        """Read no more of it."""
        self.ended = True
        self._last, self.file = self.info, None

    @property
    def info(self) -> dict[str, Any]:
        """What a recording would say of the process."""
        if self.file is None:
            return self._last
        return asdict(self.file.header) | {
            "alive": not self.ended,
            "started": self.file.started,
            "lost": self.overwritten,
            "earlier": self.earlier,
        }


class Rings:
    """The rings of a run directory. A poll that finds nothing new costs a directory listing and a look at each ring.

    A process keeps its index for good; a dead one is drained to its end and stays listed. Who takes long between two
    polls has `reading_ahead` read meanwhile: a ring holds what a busy thread writes in less than a second.
    """

    def __init__(self, run_dir: Path | str) -> None:
        self.run_dir = Path(run_dir)
        self.readings: list[RingReading] = []
        self._known: set[Path] = set()
        self._begun = False
        self._faults: dict[str, None] = {}
        self._lock = threading.Lock()
        self._ahead: list[tuple[int, Rows, Told]] = []
        """Read, and not polled yet."""
        self._read_at = time.monotonic()

    @property
    def faults(self) -> tuple[str, ...]:
        """A sentence for each ring file that could not be read."""
        return tuple(self._faults)

    @property
    def waiting(self) -> int:
        """Records that were read and not polled yet."""
        return sum(len(found) for _, found, _ in self._ahead)

    def poll(self, keep: Callable[[int, Rows, Told], None] | None = None) -> Events:
        """Events and texts that are new since the last poll; the whole process table. `keep` is given what was read
        as it was written. Raises InputError if the directory cannot be read."""
        parts: list[tuple[int, Rows]] = []
        texts: dict[int, str] = {}
        self.read()
        with self._lock:
            came, self._ahead = self._ahead, []
        for index, found, told in came:
            if keep is not None:
                keep(index, found, told)
            parts.append((index, found))
            lows = np.frombuffer(b"".join([key for key, _ in told]), "<u8")[::2].tolist()
            texts.update(zip(lows, [text for _, text in told], strict=True))
        return Events(to_rows(parts), tuple(process_of(reading.info) for reading in self.readings), texts)

    def read(self) -> float:
        """Read what is new, for the next poll; returns seconds after which it should be read again, lest something be
        overwritten. InputError: as of poll."""
        with self._lock:
            for found in self.drain():
                self._ahead.append(found)
            before, self._read_at = self._read_at, time.monotonic()
            filled = max((reading.filled for reading in self.readings if not reading.ended), default=0.0)
        return again_after(filled, self._read_at - before)

    def drain(self) -> Iterator[tuple[int, Rows, Told]]:
        """(index of the reading, its new records, its new texts) of each process that is not over."""
        self._discover()
        for index, reading in enumerate(self.readings):
            if reading.ended:
                continue
            try:
                found, texts = reading.drain()
            except RingError as error:
                reading.end()
                self._faults[str(error)] = None
            else:
                yield index, found, texts

    def _discover(self) -> None:
        faults: list[RingError] = []
        try:
            found = list_rings(self.run_dir, faults, self._known)
        except RingError as error:
            raise InputError(str(error)) from None
        self.readings += [RingReading(file, was_there=not self._begun) for file in found]
        self._known |= {file.path for file in found}
        self._begun = True
        self._faults |= dict.fromkeys(map(str, faults))


def again_after(filled: float, elapsed_s: float) -> float:
    """Seconds until a ring is to be read again of whose room that much was `filled` in that time."""
    again = AHEAD * elapsed_s / filled if filled else LATEST_S
    return min(max(again, SOONEST_S), LATEST_S)


@contextmanager
def reading_ahead(rings: Rings) -> Iterator[None]:
    """Within, a thread reads what is new whenever it must. What hinders it is the next poll's to say."""
    stop = threading.Event()

    def read() -> None:
        wait = SOONEST_S
        while not stop.wait(wait):
            wait = LATEST_S
            with suppress(InputError):
                wait = rings.read()

    thread = threading.Thread(target=read, name="kvscope-ahead", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def read_rings(run_dir: Path | str) -> Events:
    """What the rings of a run directory hold now. InputError if the directory cannot be read."""
    return Rings(run_dir).poll()

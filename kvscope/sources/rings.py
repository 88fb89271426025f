"""Live rings -> events, as they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kvscope.model.errors import InputError
from kvscope.model.events import Events
from kvscope.probe.reader import RingError, RingFile, list_rings
from kvscope.sources.records import Rows, low64, process_of, records, to_rows

Told = list[tuple[bytes, str]]
"""16-byte key, text"""


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
        for index, segment in enumerate(self.file.segments()):
            if index == len(self.cursors):
                self.cursors.append([0, 0])
            cursor = self.cursors[index]
            raw, cursor[0], lost = segment.drain(cursor[0], dead)
            told, cursor[1], _ = segment.drain_texts(cursor[1], dead)
            if self.was_there:
                self.earlier += lost
            else:
                self.overwritten += lost
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

    A process keeps its index for good; a dead one is drained to its end and stays listed.
    """

    def __init__(self, run_dir: Path | str) -> None:
        self.run_dir = Path(run_dir)
        self.readings: list[RingReading] = []
        self._known: set[Path] = set()
        self._begun = False
        self._faults: dict[str, None] = {}

    @property
    def faults(self) -> tuple[str, ...]:
        """A sentence for each ring file that could not be read."""
        return tuple(self._faults)

    def poll(self, keep: Callable[[int, Rows, Told], None] | None = None) -> Events:
        """Events and texts that are new since the last poll; the whole process table. `keep` is given what was read
        as it was written. Raises InputError if the directory cannot be read."""
        parts: list[tuple[int, Rows]] = []
        texts: dict[int, str] = {}
        for index, found, told in self.drain():
            if keep is not None:
                keep(index, found, told)
            parts.append((index, found))
            texts.update((low64(key), text) for key, text in told)
        return Events(to_rows(parts), tuple(process_of(reading.info) for reading in self.readings), texts)

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


def read_rings(run_dir: Path | str) -> Events:
    """What the rings of a run directory hold now. InputError if the directory cannot be read."""
    return Rings(run_dir).poll()

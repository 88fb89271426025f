"""Following the rings of a run directory as they are written: raw records, standard library only.

A poll that finds nothing new costs one directory listing and a look at each ring's head. Processes come and
go meanwhile; each keeps the index it was given, and a dead one is drained to its end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from kvscope.probe.reader import RingError, RingFile


@dataclass(frozen=True)
class Batch:
    """Whole records of one ring, in order."""

    process: int
    """index in `LiveRings.processes`"""
    ring: int
    raw: bytes


@dataclass(frozen=True)
class Drained:
    """What one poll found. Texts told before an event of it are in it or in an earlier one."""

    batches: tuple[Batch, ...]
    texts: tuple[tuple[bytes, str], ...]
    """16-byte key, text; a text may come more than once"""

    @property
    def raw_bytes(self) -> int:
        return sum(len(batch.raw) for batch in self.batches)


@dataclass
class LiveProcess:
    """One ring file, and how far it has been read."""

    file: RingFile
    overwritten: int = 0
    ended: bool = False
    """Dead, and drained to its end."""
    cursors: list[list[int]] = field(default_factory=list)
    """Per ring: next event, next text chunk."""

    @property
    def identity(self) -> str:
        """The same for the same process wherever it is read."""
        return f"{self.file.header.boot_id}/{self.file.path.stem}"

    @property
    def lost(self) -> int:
        """Events that were overwritten before they were read, found no room, or failed inside the probe."""
        header = self.file.header
        return self.overwritten + header.refused + header.errors


class LiveRings:
    """The rings of a run directory. Raises RingError if the directory itself cannot be read."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.processes: list[LiveProcess] = []
        self.faults: dict[str, str] = {}
        """File name -> why it cannot be read."""
        self._known: set[str] = set()

    def poll(self) -> Drained:
        """Everything published since the last poll, by processes that are new since then too."""
        self._discover()
        batches: list[Batch] = []
        texts: list[tuple[bytes, str]] = []
        for index, process in enumerate(self.processes):
            if process.ended:
                continue
            try:
                self._drain(index, process, batches, texts)
            except RingError as error:
                process.ended = True
                self.faults[process.file.path.name] = str(error)
        return Drained(tuple(batches), tuple(texts))

    def _discover(self) -> None:
        for path in ring_paths(self.run_dir):
            if path.name in self._known:
                continue
            try:
                self.processes.append(LiveProcess(RingFile(path)))
            except RingError as error:
                if not path.exists():
                    continue
                self.faults[path.name] = str(error)
            self._known.add(path.name)

    @staticmethod
    def _drain(index: int, process: LiveProcess, batches: list[Batch], texts: list[tuple[bytes, str]]) -> None:
        # Asked first: what a process published before it died is there when its rings are read after.
        dead = not process.file.alive
        for ring, segment in enumerate(process.file.segments()):
            if ring == len(process.cursors):
                process.cursors.append([0, 0])
            cursor = process.cursors[ring]
            raw, cursor[0], lost = segment.drain(cursor[0], dead)
            process.overwritten += lost
            if raw:
                batches.append(Batch(index, ring, raw))
            told, cursor[1], _ = segment.drain_texts(cursor[1], dead)
            texts += told
        process.ended = dead


def ring_paths(run_dir: Path) -> list[Path]:
    """The ring files of a run directory, by name; none if it does not exist. RingError if it cannot be read."""
    try:
        names = sorted(path.name for path in run_dir.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RingError(f"{run_dir}: {(error.strerror or str(error)).lower()}") from None
    return [run_dir / name for name in names if name.endswith(".ring") and not name.startswith(".")]

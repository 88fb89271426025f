"""What an agent sends: a recording of a second or so that stands alone, is numbered, and is never made anew.

Its head says which agent's run (`recording`) it is of and the how many-th (`part`); of each process in it, it tells
how many records its rings had taken when the batch began (`earlier`, as parts of a recording do), how many it holds,
and how many were overwritten meanwhile. So whatever is missing between two batches is known to the record. Its mark
says how far the rings have been read: an agent that is started anew goes on from there. Standard library only.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvscope.probe.heading import heading
from kvscope.probe.layout import RECORD_BYTES
from kvscope.probe.recording import SEVERAL, Writer
from kvscope.probe.tap import Progress
from kvscope.sources.standalone import Texts

MOST_RECORDS = 16_384
"""In a batch: 1.8 MB before they are packed."""
LEVEL = 1
"""What travels is packed faster than what stays: a tenth larger for little more than half the time."""
_RING = re.compile(r"(\d+)-(\d+)-\w+\.ring")


@dataclass(frozen=True)
class Batch:
    """One, ready to be kept and sent."""

    recording: str
    part: int
    data: bytes
    held: Mapping[str, int]
    """process -> records in it"""
    whole: bool
    """Whether it ends with a mark: it and those before it hold all that was read until then."""

    @property
    def events(self) -> int:
        """Records in it."""
        return sum(self.held.values())


@dataclass
class _Process:
    """One that batches tell of, since its rings were first read, by whichever run of the agent."""

    info: dict[str, Any] = field(default_factory=dict)
    records: int = 0
    """given out"""
    lost: int = 0
    """told of"""
    raw: bytearray = field(default_factory=bytearray)
    news: bool = False


def key_of(info: Mapping[str, Any]) -> str:
    """A process, among those of one host."""
    return f"{info.get('pid')}-{info.get('start_ticks')}"


def records_by(rings: Progress) -> dict[str, tuple[int, int]]:
    """process -> (records read from its rings, of others known to be overwritten since), by how far they were read."""
    found = {}
    for name, (lost, earlier, _, cursors) in rings.items():
        if named := _RING.fullmatch(name):
            found[f"{named[1]}-{named[2]}"] = sum(at for _, at, _ in cursors) - lost - earlier, lost
    return found


class Batcher:
    """Takes what taps give, and cuts it into batches."""

    def __init__(self, recording: str, rings: Progress, name: str = "") -> None:
        """rings: how far they were read before; name: what the host is called."""
        self._recording, self._name, self._part = recording, name, 0
        self._known = Texts()
        self._processes = {key: _Process(records=held, lost=lost) for key, (held, lost) in records_by(rings).items()}
        self._marks: list[dict[str, Any]] = []
        self.held = 0
        """Records that wait."""

    @property
    def news(self) -> bool:
        """Whether there is anything to tell."""
        return any(each.news or each.raw for each in self._processes.values())

    def side(self) -> Writer:
        """What a tap writes to."""
        return _Side(self)

    def texts(self, pairs: Iterable[tuple[bytes, str]]) -> None:
        """Texts are written with the records that name them."""
        self._known.add(pairs)

    def process(self, info: dict[str, Any]) -> None:
        """Who it is, or what has changed."""
        known = self._processes.setdefault(key_of(info), _Process())
        known.info, known.news = info, True

    def records(self, key: str, raw: bytes) -> None:
        """Whole records of a process that was told of."""
        self._processes[key].raw += raw
        self.held += len(raw) // RECORD_BYTES

    def mark(self, info: dict[str, Any]) -> None:
        """How far one tap has read."""
        self._marks.append(info)

    def cut(self) -> list[Batch]:
        """All that was given, in batches, the last of which ends with the marks of all taps; none if nothing is new."""
        marks, self._marks = self._marks, []
        if not self.news or not marks:
            return []
        mark = marks[-1] | {"rings": {name: each for found in marks for name, each in found["rings"].items()}}
        rounds = list(self._rounds())
        return [self._batch(each, mark if each is rounds[-1] else None) for each in rounds]

    def _rounds(self) -> Iterator[list[tuple[str, bytes]]]:
        """(process, its records) of each batch."""
        room, found = MOST_RECORDS, list[tuple[str, bytes]]()
        for key, each in self._processes.items():
            raw, at = bytes(each.raw), 0
            each.raw.clear()
            while at < len(raw) or (each.news and not at):
                piece = raw[at : at + room * RECORD_BYTES]
                found.append((key, piece))
                at, room, each.news = at + max(len(piece), 1), room - len(piece) // RECORD_BYTES, False
                if not room:
                    yield found
                    room, found = MOST_RECORDS, []
        self.held = 0
        if found:
            yield found

    def _batch(self, found: list[tuple[str, bytes]], mark: dict[str, Any] | None) -> Batch:
        self._part += 1
        file = io.BytesIO()
        writer, told = Writer(file, LEVEL), set[int]()
        writer.head(heading(self._recording, self._part) | {"agent": self._name})
        for number, (key, raw) in enumerate(found):
            writer.process(number, self._told(self._processes[key], len(raw) // RECORD_BYTES))
            named = self._known.named(raw, told) if raw else {}
            told.update(named)
            writer.texts(list(named.values()))
            writer.records(number, SEVERAL, raw)
        if mark is not None:
            writer.mark(mark)
        held = {key: len(raw) // RECORD_BYTES for key, raw in found}
        writer.end({"events": sum(held.values()), "continued": True})
        return Batch(self._recording, self._part, file.getvalue(), held, mark is not None)

    @staticmethod
    def _told(each: _Process, held: int) -> dict[str, Any]:
        """What a batch that holds so many says of it."""
        lost, earlier = int(each.info.get("lost", 0)), int(each.info.get("earlier", 0))
        said = {"lost": lost - each.lost, "earlier": earlier + each.records + each.lost, "before": each.records}
        each.records, each.lost = each.records + held, lost
        return each.info | said


class _Side(Writer):
    """One tap's way into a batcher: its numbers are its own."""

    def __init__(self, batcher: Batcher) -> None:
        self._batcher, self._keys = batcher, dict[int, str]()

    def process(self, process: int, info: dict[str, Any]) -> None:
        """Who it is."""
        self._keys[process] = key_of(info)
        self._batcher.process(info)

    def records(self, process: int, thread: int, raw: bytes) -> None:
        """Keep them."""
        if raw:
            self._batcher.records(self._keys[process], raw)

    def texts(self, pairs: list[tuple[bytes, str]]) -> None:
        """Learn them."""
        self._batcher.texts(pairs)

    def mark(self, info: dict[str, Any]) -> None:
        """How far it has read."""
        self._batcher.mark(info)

    def end(self, info: dict[str, Any]) -> None:
        """Nothing: an agent's batches go on."""

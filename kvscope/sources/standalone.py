"""A recording in parts, each of which can be read without the others. Standard library only.

A process is told again in each part that holds something of it, with what it lost within that part: what came before
the part counts as `earlier`. So parts add up to what the whole would have said, whichever of them are still there. A
text is told once in each part in which a record names it, however many threads told it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from kvscope.probe.heading import heading, new_recording
from kvscope.probe.layout import RECORD_BYTES, VALUES
from kvscope.probe.recording import Target, Writer
from kvscope.probe.vocabulary import TEXT_VALUES
from kvscope.probe.vocabulary import VALUES as NAMES

REMEMBERED = 100_000
"""Texts that are known without having been named for long, at least: some 20 MB."""

_WORDS = RECORD_BYTES // 8
_FIRST_VALUE = _WORDS - VALUES
_TEXT_WORDS = sorted(
    {_FIRST_VALUE + names.index(name) for names in NAMES.values() for name in TEXT_VALUES & frozenset(names)}
)
_KEY_WORDS = (2, 4)
"""The first halves of a record's two keys. They are told by their low 64 bits, which a value holds as a number."""


def _little(word: int) -> int:
    """A key's first 8 bytes, read as this machine reads a word -> its low 64 bits."""
    return word if sys.byteorder == "little" else int.from_bytes(word.to_bytes(8, "big"), "little")


class Texts:
    """Texts by the low 64 bits of their keys. Those not named for long are forgotten: rings tell them anew."""

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most
        self._newer: dict[int, tuple[bytes, str]] = {}
        self._older: dict[int, tuple[bytes, str]] = {}

    def add(self, pairs: Iterable[tuple[bytes, str]]) -> None:
        """Learn them."""
        for pair in pairs:
            self._newer[int.from_bytes(pair[0][:8], "little")] = pair
        if len(self._newer) > self._most:
            self._newer, self._older = {}, self._newer

    def named(self, raw: bytes, but: set[int]) -> dict[int, tuple[bytes, str]]:
        """Of what is known, what records name, but for some keys."""
        words = memoryview(raw).cast("Q")
        wanted = {_little(key) for at in _KEY_WORDS for key in set(words[at::_WORDS])}
        for at in _TEXT_WORDS:
            wanted.update(words[at::_WORDS])
        return {key: pair for key in wanted - but if (pair := self._find(key))}

    def text(self, key: int) -> str:
        """Of a key; empty where it is not known."""
        pair = self._find(key)
        return pair[1] if pair else ""

    def _find(self, key: int) -> tuple[bytes, str] | None:
        pair = self._newer.get(key)
        if pair is None and (pair := self._older.get(key)):
            self._newer[key] = pair
        return pair


@dataclass
class _Process:
    """One that the recording tells of."""

    info: dict[str, Any]
    """What was said of it last, of all the time since reading began."""
    records: int = 0
    """Written since then."""
    before: int = 0
    """What its rings had taken when this part began, beyond what was overwritten when reading began."""
    lost_before: int = 0
    told: bool = False
    """In this part."""
    used: bool = False
    """In this part there is something new of it."""

    def turn(self) -> None:
        """A part begins."""
        self.lost_before = int(self.info.get("lost", 0))
        self.before = self.records + self.lost_before
        self.told = self.used = False

    def of_part(self) -> dict[str, Any]:
        """What this part says of it."""
        lost, earlier = int(self.info.get("lost", 0)), int(self.info.get("earlier", 0))
        held = self.before - self.lost_before + int(self.info.get("before", 0))
        said = self.info | {"lost": lost - self.lost_before, "earlier": earlier + self.before}
        return said | {"before": held} if held else said


@dataclass
class _Part:
    """The one that is being written."""

    writer: Writer
    texts: set[int] = field(default_factory=set)
    """Keys of those that it holds."""
    events: int = 0


class Standalone(Writer):
    """Takes a recording, as `probe.tap.Tap` gives it, and writes it in parts.

    `begin` gives the writer of the next one. A part is ended when the next one begins.
    """

    def __init__(self, begin: Callable[[], Writer], full: Callable[[], bool] = lambda: False) -> None:
        """`full`: asked before records are written, whether the part should end here."""
        self._begin, self._full = begin, full
        self.known = Texts()
        self._processes: dict[int, _Process] = {}
        self._current = _Part(begin())

    @property
    def used(self) -> bool:
        """Whether the part holds any event."""
        return self._current.events > 0

    def process(self, process: int, info: dict[str, Any]) -> None:
        """Who it is, or what has changed."""
        self._turn_if_full()
        known = self._processes.setdefault(process, _Process(info))
        known.info, known.used = info, True
        self._tell(process, known)

    def texts(self, pairs: list[tuple[bytes, str]]) -> None:
        """Texts are written with the records that name them."""
        self.known.add(pairs)

    def records(self, process: int, thread: int, raw: bytes) -> None:
        """Keep whole records of a process that was told of; nothing if there are none."""
        if not raw:
            return
        self._turn_if_full()
        known = self._processes[process]
        if not known.told:
            self._tell(process, known)
        self._write_texts(raw)
        self._current.writer.records(process, thread, raw)
        known.records += len(raw) // RECORD_BYTES
        known.used = True
        self._current.events += len(raw) // RECORD_BYTES

    def turn(self) -> None:
        """End the part, and begin the next one."""
        self._current.writer.end({"events": self._current.events, "continued": True})
        self._current = _Part(self._begin())
        for process, known in list(self._processes.items()):
            if known.info.get("alive") is False and not known.used:
                del self._processes[process]
                continue
            known.turn()
            if known.info.get("alive") is not False:
                self._tell(process, known)

    def end(self, info: dict[str, Any]) -> None:
        """Say that this is all. `info`: of the whole, while each part says how much is in it."""
        self._current.writer.end({"events": self._current.events, "recording": info})

    def mark(self, info: dict[str, Any]) -> None:
        """Say what time it is, and how far the rings have been read."""
        self._current.writer.mark(info)

    def _turn_if_full(self) -> None:
        if self.used and self._full():
            self.turn()

    def _tell(self, process: int, known: _Process) -> None:
        known.told = True
        self._current.writer.process(process, known.of_part())

    def _write_texts(self, raw: bytes) -> None:
        part = self._current
        if len(part.texts) > REMEMBERED:
            part.texts.clear()  # told twice is no harm
        found = self.known.named(raw, part.texts)
        part.writer.texts(list(found.values()))
        part.texts.update(found)


def one_file(file: Target) -> Standalone:
    """A recording that is a single part."""

    def begin() -> Writer:
        writer = Writer(file)
        writer.head(heading(new_recording()))
        return writer

    return Standalone(begin)

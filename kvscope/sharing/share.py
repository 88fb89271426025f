"""Recordings into one that can be given away. Gone through twice: once to learn who is in them, once to write."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvscope.model.errors import InputError
from kvscope.probe.ids import HASH
from kvscope.probe.layout import RECORD_BYTES
from kvscope.probe.recording import Part, ProcessPart, RecordsPart, TextsPart, Writer
from kvscope.probe.vocabulary import THREADS
from kvscope.sharing.clocks import NO_CLOCK, Clock
from kvscope.sharing.names import Names
from kvscope.sharing.numbering import Numbering
from kvscope.sharing.output import Output
from kvscope.sharing.rows import Redaction
from kvscope.sharing.sources import Source, sources
from kvscope.sharing.survey import Survey
from kvscope.sharing.telling import Telling
from kvscope.sharing.texts import Texts
from kvscope.sources.emptiness import no_event
from kvscope.sources.records import low64


@dataclass(frozen=True)
class Wishes:
    """How to share."""

    ids: str = HASH
    secret: bytes | None = None
    """The key; None: one that nobody gets."""
    keep: Collection[str] = ()
    """Of `allowed.KEEPABLE`: names that stay."""
    keep_time: bool = False


@dataclass
class Shared:
    """What was written."""

    survey: Survey
    names: Names
    wishes: Wishes
    records: int = 0
    unknown: int = 0
    """Records of moments that this version does not know: left out."""
    infos: dict[int, dict[str, Any]] = field(default_factory=dict)
    """process -> what is said of it last"""
    ids: int = 0
    """Different request ids, roughly."""
    dropped: set[str] = field(default_factory=set)
    """Fields that were there and are not given away."""
    undecided: set[str] = field(default_factory=set)
    """.. as this version does not know them."""
    clocks: dict[str, Clock] = field(default_factory=dict)
    """boot id -> what its clock is now"""
    samples: int = 0
    """Of stacks."""
    size: int = 0
    notes: tuple[str, ...] = ()
    """Sentences: what was damaged, cut or left out."""


def share(
    paths: Sequence[Path | str],
    path: Path,
    wishes: Wishes,
    force: bool = False,
    told: Callable[[float], None] = lambda share: None,
) -> Shared:
    """Write recordings, or folders of them, into `path`; `told` hears how far it is, 0 to 1. InputError: one cannot be
    used, nothing is in them, or `path` cannot be written."""
    found, notes = sources(paths)
    _check_apart(found, path)
    progress = _Progress(told, 2 * sum(source.size for source in found))
    with Output(path, force) as file:
        survey = _surveyed(found, progress)
        processes = [each.process for each in survey.members.values()]
        tells = any(source.held.read for source in found) or any(each.note or each.before for each in processes)
        if not survey.members or not tells:
            raise InputError(no_event(paths, [*notes, *(note for source in found for note in source.notes)]))
        names = Names(wishes.secret, wishes.ids, wishes.keep)
        names.engines(survey.engines())
        writing = _Writing(Shared(survey, names, wishes), Writer(file))
        writing.begin()
        for source, head in zip(found, survey.heads, strict=True):
            writing.take(source, head, progress.of(source))
        notes += [note for source in found for note in source.notes]
        writing.end(whole=not notes)
    writing.shared.size, writing.shared.notes = file.size, tuple(notes)
    return writing.shared


def _check_apart(found: Sequence[Source], path: Path) -> None:
    """InputError: what is written would take the place of what it is made of."""
    for source in found:
        if path.exists() and path.samefile(source.path):
            raise InputError(f"{path} is what is shared; name another file to write")


def _surveyed(found: Sequence[Source], progress: _Progress) -> Survey:
    survey = Survey()
    for source in found:
        survey.begin()
        for part in source.parts(progress.of(source)):
            survey.take(part)
    return survey


class _Writing:
    """Writes one recording after the other into one file. Each process has a number of its own in each."""

    def __init__(self, shared: Shared, writer: Writer) -> None:
        self.shared, self._writer = shared, writer
        wishes, names = shared.wishes, shared.names
        self._telling, self._redaction = Telling(names, wishes.keep_time), Redaction(names, wishes.keep_time)
        self._texts = {kind: Texts() for kind in self._redaction.keys}
        self._clocks = shared.clocks = {
            host: Clock(names.shift(host, first), first, shared.survey.last[host])
            for host, first in shared.survey.first.items()
        }
        self._numbering = Numbering()
        self._hosts: dict[int, str] = {}

    def begin(self) -> None:
        """Say what the file is."""
        self._writer.head(self._telling.head(self.shared.survey.heads))

    def take(self, source: Source, head: Mapping[str, Any], told: Callable[[int], None]) -> None:
        """Write a recording, which says `head` of itself."""
        self._numbering.begin(source.path, head)
        for part in source.parts(told):
            self._part(part)

    def end(self, whole: bool) -> None:
        """All was written. Readers are to know if that is not all that there was."""
        self.shared.unknown, self.shared.ids = self._redaction.unknown, self._redaction.keys["id"].made
        self.shared.dropped, self.shared.undecided = self._telling.dropped, self._telling.undecided
        if whole:
            self._writer.end({"processes": len(self._numbering), "events": self.shared.records})

    def _part(self, part: Part) -> None:
        match part:
            case ProcessPart(process, info):
                self._process(process, info)
            case RecordsPart(process, thread, raw):
                self._records(self._numbering.of(process), thread if thread < len(THREADS) else 0, raw)
            case TextsPart(pairs):
                lows = [(low64(key), text) for key, text in pairs]
                for kind, texts in self._texts.items():
                    self._write_texts(kind, texts.tell(lows))

    def _process(self, process: int, info: dict[str, Any]) -> None:
        number, info = self._numbering.tell(process, info)
        self._hosts[number] = str(info.get("boot_id", ""))
        told = self.shared.infos[number] = self._telling.process(info, self._clock(number).shift)
        self._writer.process(number, told)

    def _records(self, number: int, thread: int, raw: bytes) -> None:
        redacted, named = self._redaction.of(raw, self._clock(number))
        for kind, keys in named.items():
            self._write_texts(kind, self._texts[kind].name(keys))
        self._writer.records(number, thread, redacted)
        self.shared.records += len(raw) // RECORD_BYTES

    def _write_texts(self, kind: str, pairs: list[tuple[int, str]]) -> None:
        keys, names = self._redaction.keys[kind], self.shared.names
        named = [(keys[low], names.ids.name(text) if kind == "id" else names.of(kind, text)) for low, text in pairs]
        self._writer.texts([(b"".join(half.to_bytes(8, "little") for half in key), name) for key, name in named])

    def _clock(self, number: int) -> Clock:
        return self._clocks.get(self._hosts[number], NO_CLOCK)


class _Progress:
    """How far all of it is."""

    def __init__(self, told: Callable[[float], None], total: int) -> None:
        self._told, self._total, self._done = told, max(total, 1), 0

    def of(self, source: Source) -> Callable[[int], None]:
        """What a source that begins now tells its bytes to."""
        before = self._done
        self._done += source.size
        return lambda read: self._told(min(1.0, (before + read) / self._total))

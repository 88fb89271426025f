"""Recordings on disk or from a pipe -> events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from kvscope.model.counting import count
from kvscope.model.errors import InputError
from kvscope.model.events import Events
from kvscope.probe.recording import (
    SIZE,
    EndPart,
    HeadPart,
    ProcessPart,
    RecordingError,
    RecordsPart,
    TextsPart,
    parts,
)
from kvscope.sources.gathering import Gathering, Seen
from kvscope.sources.records import records


def read_recordings(paths: list[Path | str]) -> Events:
    """Recordings together as one set of events. InputError names a file that is none, and what to do."""
    gathering = Gathering()
    for path in paths:
        with open(path, "rb") as file:
            read_into(gathering, file, str(path))
    return gathering.events()


def read_into(gathering: Gathering, file: IO[bytes], name: str) -> list[str]:
    """Add a recording. Returns sentences on what is damaged or missing; `name` is what they and errors call it."""
    try:
        found = parts(file)
    except RecordingError as error:
        raise refused(name, error) from None
    seen: dict[int, Seen] = {}
    ended, orphans, held, notes = False, 0, Holding(), list[str]()
    for part in found:
        match part:
            case ProcessPart(number, info):
                if number in seen:
                    seen[number].info = info
                else:
                    seen[number] = gathering.process(info, name)
            case RecordsPart(number, _, raw) if number in seen:
                seen[number].parts.append(records(raw))
                held.read += len(raw) // SIZE
            case RecordsPart():
                orphans += 1
            case TextsPart(pairs):
                gathering.texts(pairs)
            case EndPart(info):
                ended = True
                held.end(info)
            case HeadPart(info):
                notes += rounded(name, info)
    gathering.bare |= not held.read
    return notes + list(faults(name, found.bad + orphans, found.cut, ended, held))


@dataclass
class Holding:
    """How many records a recording holds, and how many it says it does."""

    read: int = 0
    said: int = 0

    def end(self, info: Mapping[str, Any]) -> None:
        """What it says in the end."""
        said = info.get("events")
        self.said += said if isinstance(said, int) else 0

    @property
    def missing(self) -> int:
        """Records that it should hold."""
        return max(self.said - self.read, 0)


def refused(name: str, error: RecordingError) -> InputError:
    """What to tell a person of a file that is no recording, or of another version."""
    return InputError(f"{name}: {error}; read it with the kvscope that wrote it, or record anew")


def rounded(name: str, head: Mapping[str, Any]) -> list[str]:
    """What has to be said of a recording that was made to be given away, by what it says of itself."""
    sizes = f"{name} was shared: sizes in it (tokens, blocks, bytes, descriptors) are rounded, by a ninth at most"
    return [sizes] if head.get("shared") == "rounded" else []


def faults(name: str, bad: int, cut: bool, ended: bool, held: Holding) -> Iterator[str]:
    """Sentences on what is damaged or missing."""
    if bad:
        yield f"{name} is damaged: {bad} of its parts cannot be read, and their events are missing from every number"
    elif held.missing:
        yield f"{name} is damaged: {count(held.missing, 'event')} that it held when it was ended are not in it any more"
    if not held.read and not ended:
        yield f"{name} ends before its first block of events does: it was cut, or is only beginning to be written"
    elif cut or not ended:
        yield f"{name} was not ended: it is still being written, or was cut; what it holds until there is used"

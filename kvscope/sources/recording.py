"""Recordings on disk or from a pipe -> events."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO

from kvscope.model.errors import InputError
from kvscope.model.events import Events
from kvscope.probe.recording import EndPart, ProcessPart, RecordingError, RecordsPart, TextsPart, parts
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
        raise InputError(f"{name}: {error}; read it with the kvscope that wrote it, or record anew") from None
    seen: dict[int, Seen] = {}
    ended = False
    for part in found:
        match part:
            case ProcessPart(number, info):
                if number in seen:
                    seen[number].info = info
                else:
                    seen[number] = gathering.process(info)
            case RecordsPart(number, _, raw) if number in seen:
                seen[number].parts.append(records(raw))
            case RecordsPart():
                found.bad += 1
            case TextsPart(pairs):
                gathering.texts(pairs)
            case EndPart():
                ended = True
    return list(_faults(name, found.bad, found.cut, ended))


def _faults(name: str, bad: int, cut: bool, ended: bool) -> Iterator[str]:
    if bad:
        yield f"{name} is damaged: {bad} of its parts cannot be read, and their events are missing from every number"
    if cut or not ended:
        yield f"{name} was not ended: it is still being written, or was cut; what it holds until there is used"

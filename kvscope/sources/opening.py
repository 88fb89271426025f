"""Telling sources apart by what is in them, and reading them together."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from kvscope.model.errors import InputError
from kvscope.model.events import Events
from kvscope.probe import layout
from kvscope.probe.recording import FILE_MAGIC
from kvscope.sources.gathering import Gathering
from kvscope.sources.jsonl import parse_jsonl
from kvscope.sources.recording import read_into
from kvscope.sources.rings import Rings

STDIN = "-"
RING_MAGIC = layout.MAGIC.to_bytes(8, sys.byteorder)


@dataclass(frozen=True)
class Opened:
    """Events of all sources together, and what has to be said beside their numbers."""

    events: Events
    duplicates: int = 0
    """Records that more than one source held; each is in `events` once."""
    notes: tuple[str, ...] = ()
    """Sentences: what was damaged, cut, unknown or could not be read."""


def open_all(paths: Sequence[Path | str], run_dir: Path | str | None) -> Opened:
    """See `kvscope.sources.open_sources`."""
    gathering = Gathering()
    notes: list[str] = []
    for path in paths:
        notes += _read(gathering, str(path))
    if run_dir:
        notes += _read_rings(gathering, str(run_dir))
    events = gathering.events()
    if not events.processes:
        raise InputError("; ".join([*notes, nothing(paths, run_dir)]) if paths else nothing(paths, run_dir))
    if gathering.duplicates:
        notes.append(f"{gathering.duplicates} records were in more than one source; each counts once")
    return Opened(events, gathering.duplicates, tuple(notes))


def nothing(paths: Sequence[Path | str], run_dir: Path | str | None) -> str:
    """What to tell a person when nothing was found."""
    if paths:
        return f"no process has recorded anything in {', '.join(map(str, paths))}; name another recording"
    return (
        f"no rings in {run_dir}; start an instrumented engine (`kvscope doctor` says what keeps one from recording),"
        " or name a recording (`kvscope record -o FILE` makes one)"
    )


def _read(gathering: Gathering, path: str) -> list[str]:
    if path == STDIN:
        return _read_stream(gathering, cast(io.BufferedReader, sys.stdin.buffer), "standard input")
    if Path(path).is_dir():
        return _read_rings(gathering, path)
    try:
        with open(path, "rb") as file:
            return _read_stream(gathering, file, path)
    except FileNotFoundError:
        raise InputError(f"there is no {path}; name a recording, JSON lines, or a directory with rings") from None


def _read_stream(gathering: Gathering, file: io.BufferedReader, name: str) -> list[str]:
    start = file.peek(len(FILE_MAGIC))[: len(FILE_MAGIC)]
    if start == FILE_MAGIC:
        return read_into(gathering, file, name)
    if start == RING_MAGIC:
        raise InputError(f"{name} is one process's ring file; name the directory that it is in")
    if not start:
        raise InputError(f"{name} is empty; name a recording (`kvscope record -o FILE` makes one) or JSON lines")
    if start.lstrip()[:1] != b"{":
        raise InputError(f"{name} is neither a recording nor JSON lines; `kvscope record -o FILE` makes a recording")
    return _read_lines(gathering, file, name)


def _read_lines(gathering: Gathering, file: IO[bytes], name: str) -> list[str]:
    text = io.TextIOWrapper(file, "utf-8")
    try:
        found = parse_jsonl(text, name)
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 at byte {error.start}; write it anew") from None
    finally:
        text.detach()  # the file is closed by who opened it
    gathering.add(found.events)
    notes = []
    if found.unknown_moments:
        notes.append(f"{name}: moments that this version does not know are left out: {_counted(found.unknown_moments)}")
    if found.unknown_fields:
        notes.append(f"{name}: fields that this version does not know are ignored: {_counted(found.unknown_fields)}")
    return notes


def _read_rings(gathering: Gathering, path: str) -> list[str]:
    rings = Rings(path)
    if not Path(path).is_dir():
        return [f"no rings in {path}: there is no such directory"]
    for index, found, texts in rings.drain():
        seen = gathering.process(rings.readings[index].info)
        seen.parts.append(found)
        gathering.texts(texts)
    return list(rings.faults)


def _counted(names: dict[str, int]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in names.items())

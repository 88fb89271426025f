"""Telling sources apart by what is in them, and reading them together."""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from kvscope.model.errors import InputError, NothingThereError
from kvscope.model.events import Events
from kvscope.probe import layout
from kvscope.probe.recording import FILE_MAGIC
from kvscope.sources.absent import absent
from kvscope.sources.bytime import together
from kvscope.sources.capacity import check_fits
from kvscope.sources.emptiness import no_event
from kvscope.sources.folders import Member, members
from kvscope.sources.gathering import Gathering
from kvscope.sources.jsonl import parse_jsonl
from kvscope.sources.parquet.manifest import is_export
from kvscope.sources.recording import read_into
from kvscope.sources.rings import Rings
from kvscope.sources.routers.reading import alone, placed, router_log
from kvscope.sources.twice import counted_twice, told_twice

STDIN = "-"
BOM = codecs.BOM_UTF8
"""Some editors and shells put it before text; it says nothing."""
LISTED, SHOWN = 10, 60
"""Names that a note lists, and characters of each."""
PARQUET_MAGIC = b"PAR1"
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
    found = members(paths)
    check_fits(found)
    for member in found:
        notes += _read(gathering, member)
    if run_dir:
        notes += _read_rings(gathering, str(run_dir))
    events = gathering.events()
    recorded = events.processes[: gathering.recorded]
    notes += (*absent(recorded), *counted_twice(gathering.under_other_ids))
    if not events.processes or (gathering.bare and not _tell_anything(events)):
        if gathering.routers and not events.processes:
            raise alone(gathering.routers)
        named = paths or (notes and run_dir and Path(run_dir).is_dir())
        raise (InputError if named else NothingThereError)(nothing(paths, run_dir, notes))
    notes += told_twice(gathering.duplicates)
    moments, said = placed(gathering.routers, lambda: iter([events]))
    whole = together([events, moments]) if len(moments) else events
    return Opened(whole, gathering.duplicates, (*notes, *said))


def _tell_anything(events: Events) -> bool:
    """What happened, or why nothing of it is here."""
    return len(events) > 0 or any(process.note or process.before for process in events.processes)


def nothing(paths: Sequence[Path | str], run_dir: Path | str | None, notes: Sequence[str]) -> str:
    """What to tell a person when nothing was found, and `notes` say what could not be read."""
    if paths:
        return no_event(paths, notes)
    if notes and run_dir and Path(run_dir).is_dir():
        return "; ".join((*notes, f"nothing else is in {run_dir}"))
    return (
        f"no rings in {run_dir}; start an instrumented engine (`kvscope doctor` says what keeps one from recording),"
        " or name a recording (`kvscope record -o FILE` makes one)"
    )


def _read(gathering: Gathering, member: Member) -> list[str]:
    path = member.path
    if empty := member.why_empty:
        return [empty]
    try:
        return _read_one(gathering, path)
    except InputError as error:
        if not member.part:
            raise
        return [f"left out: {error}"]


def _read_one(gathering: Gathering, path: str) -> list[str]:
    if path == STDIN:
        if sys.stdin is None:
            raise InputError("standard input is closed; name a file, or send one into it")
        return _read_stream(gathering, cast(io.BufferedReader, sys.stdin.buffer), "standard input")
    if Path(path).is_dir():
        return _read_folder(gathering, path)
    try:
        with open(path, "rb") as file:
            return _read_stream(gathering, file, path)
    except FileNotFoundError:
        raise InputError(f"there is no {path}; name a recording, JSON lines, or a directory with rings") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from None


def _read_folder(gathering: Gathering, path: str) -> list[str]:
    if not is_export(Path(path)):
        return _read_rings(gathering, path)
    from kvscope.sources.parquet.reading import read_folder  # pyarrow is loaded where such a folder is met

    events, notes = read_folder(Path(path))
    gathering.add(events)
    return list(notes)


def _read_stream(gathering: Gathering, file: io.BufferedReader, name: str) -> list[str]:
    log = router_log(file, name)
    if log is not None:
        gathering.routers.append(log)
        return []
    if is_recording(file, name):
        return read_into(gathering, file, name)
    return _read_lines(gathering, file, name)


def is_recording(file: io.BufferedReader, name: str) -> bool:
    """Whether it begins as a recording does; if not, it is JSON lines. InputError: it is neither."""
    start = file.peek(len(FILE_MAGIC))[: len(FILE_MAGIC)]
    if start == RING_MAGIC:
        raise InputError(f"{name} is one process's ring file; name the directory that it is in")
    if start.startswith(PARQUET_MAGIC):
        raise InputError(f"{name} is one table of an export; name the folder that it is in")
    if not start:
        raise InputError(f"{name} is empty; name a recording (`kvscope record -o FILE` makes one) or JSON lines")
    if start != FILE_MAGIC and not start.removeprefix(BOM).lstrip().startswith(b"{"):
        raise InputError(f"{name} is neither a recording nor JSON lines; `kvscope record -o FILE` makes a recording")
    return start == FILE_MAGIC


def _read_lines(gathering: Gathering, file: IO[bytes], name: str) -> list[str]:
    found = parse_jsonl(_lines(file, name), name)
    gathering.add(found.events)
    notes = list(found.notes)
    if found.unknown_moments:
        notes.append(f"{name}: moments that this version does not know are left out: {_counted(found.unknown_moments)}")
    if found.unknown_fields:
        notes.append(f"{name}: fields that this version does not know are ignored: {_counted(found.unknown_fields)}")
    return notes


def _lines(file: IO[bytes], name: str) -> Iterator[str]:
    for number, line in enumerate(file, 1):
        try:
            yield (line.removeprefix(BOM) if number == 1 else line).decode()
        except UnicodeDecodeError:
            raise InputError(f"{name}:{number} is not UTF-8; write it anew") from None


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
    listed = [f"{name[:SHOWN]} ({count})" for name, count in list(names.items())[:LISTED]]
    return ", ".join(listed) + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")

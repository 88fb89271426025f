"""All of some sources, from the first event to the last, in pieces where that is possible.

Recordings and exported folders are gone through where they lie. What cannot be gone back in, or is small, is read at
once and held: live rings, standard input, JSON lines, and whatever is named beside these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from kvscope.model.errors import InputError
from kvscope.probe.recording import FILE_MAGIC
from kvscope.sources.bytime import Loaded
from kvscope.sources.folders import members
from kvscope.sources.opening import STDIN, open_all
from kvscope.sources.parquet.manifest import is_export
from kvscope.sources.past import Past, open_past


def open_whole(paths: Sequence[Path | str], run_dir: Path | str | None, told: Callable[[float], None]) -> Past:
    """What is named; `told` hears how far reading is, 0 to 1. InputError: it cannot be read, or nothing is in it."""
    found = [member.path for member in members(paths)] if run_dir is None else []
    if found and all(map(_lies_there, found)):
        return open_past(paths, told)
    opened = open_all(paths, run_dir)
    if not len(opened.events):
        raise InputError("nothing was recorded there yet; record while requests are served (`kvscope record`)")
    return Past([Loaded(opened.events, opened.notes)])


def _lies_there(path: str) -> bool:
    if path == STDIN:
        return False
    if Path(path).is_dir():
        return is_export(Path(path))
    try:
        with open(path, "rb") as file:
            return Path(path).is_file() and file.read(len(FILE_MAGIC)) == FILE_MAGIC
    except OSError:
        return False

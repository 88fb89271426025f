"""What is left on disk of a recording that ended in the middle, in words. Standard library only."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from kvscope.model.amounts import in_bytes
from kvscope.model.counting import count
from kvscope.probe.recording import RECORDS, Frames, RecordingError
from kvscope.sources.folders import PARTS


def remnant(path: Path) -> str:
    """`a.kvs is left there, 61.4 kB, and can be read up to where it breaks off`; empty where nothing is left."""
    if path.is_dir():
        files = sorted(each for each in path.glob(PARTS) if each.is_file())
        what = f"{count(len(files), 'part')} in {path}" if files else ""
    else:
        files = [path] if path.is_file() else []
        what = str(path)
    if not files:
        return ""
    size = in_bytes(sum(each.stat().st_size for each in files))
    are = "are" if len(files) > 1 else "is"
    if any(map(_tells, files)):
        return f"{what} {are} left, {size}, and can be read up to the last whole block"
    return f"{what} {are} left, {size}, with no event to read"


def _tells(path: Path) -> bool:
    """Whether a whole block of events is in it."""
    with suppress(OSError, RecordingError), path.open("rb") as file:
        return any(frame.kind == RECORDS for frame in Frames(file))
    return False

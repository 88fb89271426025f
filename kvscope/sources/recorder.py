"""From live rings into a recording, one file or a folder of parts, for as long as wanted. Standard library only."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kvscope.model.errors import InputError
from kvscope.probe.hiding import hiding
from kvscope.probe.ids import Ids
from kvscope.probe.reader import RingError, list_rings
from kvscope.probe.tap import Tap
from kvscope.sources.output import STDOUT, Output
from kvscope.sources.remnant import remnant
from kvscope.sources.rotation import Folder, Limits
from kvscope.sources.standalone import Standalone, one_file

INTERVAL_S = 0.25
"""Between two looks at the rings: a thread's ring of 8,192 records then bears 32,000 events a second."""

_FULL = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the quota is used up", errno.EFBIG: "the file may not grow"}


@dataclass(frozen=True)
class Recorded:
    """How far a recording has come."""

    events: int
    lost: int
    """Overwritten in a ring before they were read."""
    processes: int
    size_bytes: int
    seconds: float
    living: int
    """Processes that have not ended."""
    faults: tuple[str, ...] = ()
    """Sentences: ring files that could not be read, and what is in the way of parts."""
    unremoved: int = 0
    """Parts that should have been removed and could not be."""
    removed: int = 0
    """Parts that were removed, to keep to the limits or by others."""
    kept_bytes: int = 0
    """What is left of all that was written, now and before."""
    earlier: int = 0
    """Overwritten in the rings before it began."""
    before: int = 0
    """Of the events, those that lay in the rings when it began."""


class Sink(Protocol):
    """Where a recording goes."""

    @property
    def size(self) -> int:
        """Bytes written."""

    @property
    def faults(self) -> tuple[str, ...]:
        """Sentences on what is in the way, each once."""

    @property
    def unremoved(self) -> int:
        """Parts that should have been removed and could not be."""

    @property
    def removed(self) -> int:
        """Parts that were removed, to keep to the limits or by others."""

    @property
    def kept(self) -> int:
        """Bytes of it that are there."""

    def check(self) -> None:
        """InputError: what was written is not there any more."""


@dataclass
class _Work:
    """A recording under way."""

    stop: threading.Event
    """when it is set, it ends"""
    run_dir: Path
    interval_s: float = INTERVAL_S
    progress: Callable[[Recorded], None] | None = None
    """is told after each look"""
    ids: Ids | None = None
    """how request ids are written; None: as they are"""
    tap: Tap | None = None
    """once it has begun"""
    before: int | None = None
    """events that lay in the rings then"""

    def into(self, sink: Sink, writer: Standalone, between: Callable[[], None] = lambda: None) -> Recorded:
        """Drain the rings until it is to stop; `between` looks."""
        begun, tap = time.monotonic(), Tap(self.run_dir, hiding(writer, self.ids))
        self.tap = tap
        while True:
            drained = tap.poll()
            self.before = drained if self.before is None else self.before
            between()
            sink.check()
            if self.progress:
                self.progress(_so_far(tap, sink, begun, self.before))
            if self.stop.wait(self.interval_s):
                break
        tap.end()
        sink.check()
        return _so_far(tap, sink, begun, self.before)


def save(run_dir: Path | str, path: Path | str, force: bool = False, ids: Ids | None = None) -> Recorded:
    """Write what the rings hold now into `path`. InputError: it is there (and not `force`), or cannot be written."""
    stop = threading.Event()
    stop.set()
    return record_until(stop, run_dir, path, force=force, ids=ids)


def record_until(
    stop: threading.Event,
    run_dir: Path | str,
    path: Path | str,
    interval_s: float = INTERVAL_S,
    force: bool = False,
    progress: Callable[[Recorded], None] | None = None,
    ids: Ids | None = None,
) -> Recorded:
    """Drain the rings of `run_dir` into `path` until `stop` is set; `progress` is told after each look. `ids`: how
    request ids are written; None: as they are.

    The file can be read and copied meanwhile. InputError as for `save`, or it was removed or cut short meanwhile; what
    was written stays readable. BrokenPipeError: `path` is a pipe (`-`: standard output), and nobody reads it any more.
    """
    work = _Work(stop, Path(run_dir), interval_s, progress, ids)
    if Path(path).is_dir():
        raise InputError(f"{path} is a directory; name a file in it, such as {Path(path) / 'run.kvs'}")
    with _told(path, work), Output(Path(path), force) as file:
        writer = one_file(file)
        file.flush()  # from now on it can be read, if there is nothing in it yet
        return work.into(file, writer)


def record_parts_until(
    stop: threading.Event,
    run_dir: Path | str,
    path: Path | str,
    limits: Limits,
    interval_s: float = INTERVAL_S,
    progress: Callable[[Recorded], None] | None = None,
    ids: Ids | None = None,
) -> Recorded:
    """As `record_until`, into parts in the folder `path`, which is made where it is not there."""
    work = _Work(stop, Path(run_dir), interval_s, progress, ids)
    if str(path) == STDOUT or (Path(path).exists() and not Path(path).is_dir()):
        raise InputError(f"parts go into a folder, and {path} is none; name another")
    with _told(path, work), Folder(Path(path), limits) as folder:
        writer = Standalone(folder.begin, folder.full)

        def between() -> None:
            if folder.broken or (writer.used and folder.full()):
                writer.turn()
            folder.trim()

        return work.into(folder, writer, between)


@contextmanager
def _told(path: Path | str, work: _Work) -> Iterator[None]:
    """What goes wrong in here becomes a sentence."""
    try:
        list_rings(work.run_dir, [])  # before a file is replaced in vain
        yield
    except FileExistsError:
        raise InputError(f"{path} is there already; name another file, or add --force to replace it") from None
    except RingError as error:
        raise InputError(str(error)) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(_failed(path, error, work.tap)) from None


def _so_far(tap: Tap, sink: Sink, begun: float, before: int) -> Recorded:
    seconds = time.monotonic() - begun
    faults = (*tap.faults, *sink.faults)
    return Recorded(
        tap.events,
        tap.lost,
        tap.processes,
        sink.size,
        seconds,
        tap.living,
        faults,
        sink.unremoved,
        sink.removed,
        sink.kept,
        tap.earlier,
        min(before, tap.events),
    )


def _failed(path: Path | str, error: OSError, tap: Tap | None) -> str:
    full = error.errno in _FULL
    reason = _FULL.get(error.errno or 0, (error.strerror or str(error)).lower())
    left = remnant(Path(path)) if (full or tap) and str(path) != STDOUT else ""
    do = "make room or name another file" if full else "name another file"
    where = "standard output" if str(path) == STDOUT else path
    return "; ".join(filter(None, (f"cannot write {where}: {reason}", left, do)))

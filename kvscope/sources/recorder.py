"""From live rings into one recording file, for as long as wanted. Standard library only."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from kvscope.model.errors import InputError
from kvscope.probe.reader import RingError
from kvscope.probe.recording import Writer
from kvscope.probe.tap import Tap

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
    faults: tuple[str, ...] = ()
    """A sentence for each ring file that could not be read."""


def save(run_dir: Path | str, path: Path | str, force: bool = False) -> Recorded:
    """Write what the rings hold now into `path`. InputError: it is there (and not `force`), or cannot be written."""
    stop = threading.Event()
    stop.set()
    return record_until(stop, run_dir, path, force=force)


def record_until(
    stop: threading.Event,
    run_dir: Path | str,
    path: Path | str,
    interval_s: float = INTERVAL_S,
    force: bool = False,
    progress: Callable[[Recorded], None] | None = None,
) -> Recorded:
    """Drain the rings of `run_dir` into `path` until `stop` is set; `progress` is told after each look.

    The file can be read and copied meanwhile. InputError as for `save`; what was written stays readable.
    """
    begun, tap = time.monotonic(), None
    try:
        with open(path, "wb" if force else "xb") as file:
            tap = Tap(Path(run_dir), Writer(file))
            file.flush()  # from now on it can be read, if there is nothing in it yet
            while not stop.is_set():
                tap.poll()
                if progress:
                    progress(_so_far(tap, file, begun))
                stop.wait(interval_s)
            tap.end()
            return _so_far(tap, file, begun)
    except FileExistsError:
        raise InputError(f"{path} is there already; name another file, or add --force to replace it") from None
    except RingError as error:
        raise InputError(str(error)) from None
    except OSError as error:
        raise InputError(_failed(path, error, tap)) from None


def _so_far(tap: Tap, file: BinaryIO, begun: float) -> Recorded:
    return Recorded(tap.events, tap.lost, tap.processes, file.tell(), time.monotonic() - begun, tuple(tap.faults))


def _failed(path: Path | str, error: OSError, tap: Tap | None) -> str:
    reason = _FULL.get(error.errno or 0, (error.strerror or str(error)).lower())
    kept = "; what was recorded until then can be read" if tap and tap.events else ""
    return f"cannot write {path}: {reason}{kept}; make room or name another file"

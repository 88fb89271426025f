"""Moments and stacks together, into one folder: what `kvscope profile` looks at."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kvscope.model.errors import InputError
from kvscope.sources.recorder import record_until
from kvscope.sources.remnant import remnant
from kvscope.stacks.reading import remaining
from kvscope.stacks.sampler import Sampler
from kvscope.stacks.targets import Target

RECORDING, STACKS = "recording.kvs", "stacks.jsonl"
LOOK_S = 0.1
"""Between two looks whether anything is left to sample."""


@dataclass(frozen=True)
class Taken:
    """What came of it."""

    samples: int
    faults: tuple[str, ...]
    """Sentences: what could not be sampled or recorded, and why."""


def take(
    stop: threading.Event,
    targets: Sequence[Target],
    run_dir: Path,
    folder: Path,
    rate_hz: int,
    span_s: float,
    begun: Callable[[int], None],
) -> Taken:
    """Record and sample for `span_s`, until `stop` is set, or no process is left. `begun` is told how many there are.

    InputError: none can be, or the folder cannot be written. What was taken until then stays, and it says what that is.
    """
    sampler = Sampler(targets, folder / STACKS, rate_hz)
    made = _make(folder)
    recorded = _Recording(stop, run_dir, folder / RECORDING)
    with _removed_if_empty(folder, made), _ended(recorded, stop), sampler:
        begun(sampler.living)
        recorded.start()
        until = time.monotonic() + span_s
        while sampler.living and (left := until - time.monotonic()) > 0 and not stop.wait(min(left, LOOK_S)):
            pass
        stop.set()
        recorded.join()
    if recorded.failed is not None:
        raise InputError(f"{recorded.failed}; {remaining(folder / STACKS)}")
    return Taken(sampler.samples, (*sampler.faults, *recorded.faults))


def _make(folder: Path) -> bool:
    """Whether it had to be made."""
    there = folder.is_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot make {folder}: {(error.strerror or str(error)).lower()}; name another folder"
        ) from None
    for name in (STACKS, RECORDING):
        if (folder / name).exists():
            raise InputError(f"{folder} holds an earlier profile; name another folder")
    return not there


@contextmanager
def _removed_if_empty(folder: Path, made: bool) -> Iterator[None]:
    """Where nothing could be sampled, nothing is left."""
    try:
        yield
    finally:
        if made:
            with suppress(OSError):
                folder.rmdir()


@contextmanager
def _ended(recorded: _Recording, stop: threading.Event) -> Iterator[None]:
    """Where sampling failed, what was recorded beside it is told of, too."""
    try:
        yield
    except InputError as error:
        if not recorded.ident:
            raise
        stop.set()
        recorded.join()
        raise InputError("; ".join(filter(None, (str(error), remnant(recorded.path))))) from None


class _Recording(threading.Thread):
    """The recorder beside the sampler."""

    def __init__(self, stop: threading.Event, run_dir: Path, path: Path) -> None:
        super().__init__(daemon=True)
        self._stop_asked, self._run_dir, self.path = stop, run_dir, path
        self.failed: InputError | None = None
        self.faults: tuple[str, ...] = ()

    def run(self) -> None:
        try:
            self.faults = record_until(self._stop_asked, self._run_dir, self.path).faults
        except InputError as error:
            self.failed = error
            self._stop_asked.set()

"""Keeping what the pair's rings hold while a load runs, so that a long one loses nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kvscope.lab.errors import LabError
from kvscope.probe.reader import RingError
from kvscope.probe.tap import Tap
from kvscope.sources.standalone import one_file

EVERY_S = 1.0
# After the last answer the prefill engine still learns of its last transfers and frees their blocks.
SETTLE_S = 1.5


@contextmanager
def recording(run_dir: Path, path: Path) -> Iterator[Tap]:
    """Drain the rings of `run_dir` into `path` until the end of the block. LabError: they could not be read."""
    over = threading.Event()
    trouble: list[RingError] = []
    with path.open("wb") as file:
        tap = Tap(run_dir, one_file(file))
        drainer = threading.Thread(target=_drain, args=(tap, over, trouble), name="lab-recording")
        drainer.start()
        try:
            yield tap
            over.wait(SETTLE_S)
        finally:
            over.set()
            drainer.join()
    if trouble:
        raise LabError(f"the recording {path} is not whole: {trouble[0]}")


def _drain(tap: Tap, over: threading.Event, trouble: list[RingError]) -> None:
    try:
        while not over.wait(EVERY_S):
            tap.poll()
        tap.end()
    except RingError as error:
        trouble.append(error)

"""Keeping what the pair's rings hold while a load runs, so that a long one loses nothing."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kvscope.lab.errors import LabError
from kvscope.probe.reader import RingError
from kvscope.probe.recording import Writer
from kvscope.probe.tap import Progress, Tap
from kvscope.sources.standalone import one_file

EVERY_S = 1.0
# After the last answer the prefill engine still learns of its last transfers and frees their blocks.
SETTLE_S = 1.5


@contextmanager
def recording(run_dir: Path, path: Path, since: Progress | None = None) -> Iterator[Tap]:
    """Drain the rings of `run_dir` into `path` until the end of the block. LabError: they could not be read.

    since: from there on, as `passed` tells it; None: with all that they still hold of before.
    """
    over = threading.Event()
    trouble: list[RingError] = []
    with path.open("wb") as file:
        tap = Tap(run_dir, one_file(file), since=since)
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


class _Nowhere(Writer):
    """Keeps nothing but how far the rings were read."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO())
        self.rings: dict[str, Any] = {}

    def records(self, process: int, thread: int, raw: bytes) -> None:
        """Forget them."""

    def mark(self, info: dict[str, Any]) -> None:
        """Keep it."""
        self.rings = info["rings"]


def passed(run_dir: Path) -> Progress:
    """How far the rings have come: what happened until now is left out. Texts are not, later records name them."""
    nowhere = _Nowhere()
    tap = Tap(run_dir, nowhere)
    tap.poll()
    tap.mark()
    return {
        name: [0, 0, 0, [[place, events, 0] for place, events, _ in cursors]]
        for name, (*_, cursors) in nowhere.rings.items()
    }


def _drain(tap: Tap, over: threading.Event, trouble: list[RingError]) -> None:
    try:
        while not over.wait(EVERY_S):
            tap.poll()
        tap.end()
    except RingError as error:
        trouble.append(error)

"""Real processes whose threads do known things, and what is sampled of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from kvscope.stacks.reading import Stacks, read_stacks
from kvscope.stacks.sampler import Sampler
from kvscope.stacks.targets import recording_in

from ..live.conftest import until

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "tests" / "scripts" / "profiled_process.py"

__all__ = ["until"]


class Worked:
    """A process that works, and says when it did what."""

    def __init__(self, engine: str, log: Path, *words: str, python: str = sys.executable, **popen: object) -> None:
        self._log = log
        pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
        command = [python, str(SCRIPT), engine, str(log), *words]
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(  # type: ignore[call-overload]
            command, text=True, env=environ, **{**pipes, **popen}
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == "ready", "the process did not start"

    @property
    def pid(self) -> int:
        return int(self.process.pid)

    def did(self, t: int) -> str:
        """What the writer was doing at a time; empty where it is not told."""
        begins, ends, names = self._told()
        place = bisect_right(begins, t) - 1
        return names[place] if place >= 0 and t < ends[place] else ""

    def _told(self) -> tuple[list[int], list[int], list[str]]:
        lines = [line.split() for line in self._log.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [int(line[1]) for line in lines], [int(line[2]) for line in lines], [line[0] for line in lines]

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class Work(Protocol):
    """Starts one."""

    def __call__(self, engine: str, *words: str, python: str = sys.executable, **popen: object) -> Worked: ...


@pytest.fixture
def work(run_dir: Path, tmp_path: Path) -> Iterator[Work]:
    """Start a process that works; all are ended with the test."""
    started: list[Worked] = []

    def begin(engine: str, *words: str, python: str = sys.executable, **popen: object) -> Worked:
        log = tmp_path / f"{engine}-{len(started)}.log"
        started.append(Worked(engine, log, *words, python=python, **popen))
        return started[-1]

    yield begin
    for each in started:
        each.end()


def sample(
    run_dir: Path,
    path: Path,
    samples: int,
    rate_hz: int = 100,
    stretch_s: float = 5.0,
    meanwhile: Callable[[Sampler], None] = lambda sampler: None,
) -> Stacks:
    """Sample all that records, until about so many stacks of a thread were seen."""
    pause = threading.Event()
    with Sampler(recording_in(run_dir), path, rate_hz, stretch_s) as sampler:
        meanwhile(sampler)
        pause.wait(samples / rate_hz)
    assert sampler.faults == []
    return read_stacks(path)


def names(frames: tuple[str, ...]) -> list[str]:
    """The functions of a stack."""
    return [frame.partition(" (")[0] for frame in frames]


def stop(process: subprocess.Popen[str], number: int = signal.SIGINT) -> tuple[int, str, str]:
    """Signal a process; its code, what it wrote and what it said."""
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err

"""Real processes that record with the real probe."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "tests" / "scripts" / "recording_process.py"


class Recording:
    """One process that records what it is told to."""

    def __init__(self, engine: str, command: list[str] | None = None, executable: str = sys.executable) -> None:
        self.process = subprocess.Popen(
            command or [sys.executable, str(SCRIPT), engine],
            executable=executable,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Under another name Python does not find the environment that it belongs to.
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        if self._answer() != "ready":
            self.kill()
            raise AssertionError(f"the process of {engine} did not start")

    def tell(self, order: str) -> str:
        """Give an order and wait until it is done."""
        assert self.process.stdin is not None
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        return self._answer()

    def kill(self) -> None:
        self.process.kill()
        self.close()

    def close(self) -> None:
        self.process.communicate()

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


class Start(Protocol):
    """Starts a recording process for an engine."""

    def __call__(self, engine: str, make: Callable[[str], Recording] = Recording) -> Recording: ...


@pytest.fixture
def start(run_dir: Path) -> Iterator[Start]:
    """Start a recording process for an engine; all are stopped in the end."""
    started: list[Recording] = []

    def begin(engine: str, make: Callable[[str], Recording] = Recording) -> Recording:
        started.append(make(engine))
        return started[-1]

    yield begin
    for each in started:
        if each.process.poll() is None:
            each.kill()

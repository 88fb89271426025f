"""Real processes that record with the real probe."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "recording_process.py"


class Recording:
    """One process that records what it is told to."""

    def __init__(self, engine: str) -> None:
        command = [sys.executable, str(SCRIPT), engine]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._answer() == "ready"

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


Start = Callable[[str], Recording]


@pytest.fixture
def start(run_dir: Path) -> Iterator[Start]:
    """Start a recording process for an engine; all are stopped in the end."""
    started: list[Recording] = []

    def begin(engine: str) -> Recording:
        started.append(Recording(engine))
        return started[-1]

    yield begin
    for each in started:
        if each.process.poll() is None:
            each.kill()

"""`kvscope top` as a person starts it: from a shell, on a terminal, or into a pipe; and engines that are none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from tests.lab.terminal import Terminal

from ..sources.conftest import ROOT, Recording, start

__all__ = ["start"]

WRITER = ROOT / "benchmarks" / "writing_engines.py"
PICTURES = ROOT / "docs" / "pictures"
TOP = (sys.executable, "-m", "kvscope", "top")
SHELL = 'trap : INT; stty -g | cksum; "$@"; echo "ended with $?:"; stty -g | cksum; exec sleep 1000'
"""What the terminal is set to is told before and after."""
IDLE = """
import sys
from kvscope.probe import recorder
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE
recorder.describe({"engine": sys.argv[1], "engine_id": sys.argv[1] + "-1"})
recorder.record(MOMENT_CODE["load"], LEG_CODE["engine"], None, 0, 0, 0, 0, 1000)
print("ready", flush=True)
sys.stdin.readline()
"""


class OnScreen(Protocol):
    """Starts it on a terminal."""

    def __call__(
        self, *words: str, size: tuple[int, int] = (100, 30), env: Mapping[str, str] | None = None
    ) -> Terminal: ...


@pytest.fixture
def on_screen(tmp_path: Path) -> Iterator[OnScreen]:
    """Start it from a shell on a terminal; all end with the test."""
    with ExitStack() as stack:

        def begin(*words: str, size: tuple[int, int] = (100, 30), env: Mapping[str, str] | None = None) -> Terminal:
            command = ["sh", "-c", SHELL, "sh", *TOP, *words]
            return stack.enter_context(Terminal(command, size, {"PYTHONPATH": str(ROOT), **(env or {})}, tmp_path))

        yield begin


Done = subprocess.CompletedProcess[str]
Piped = Callable[..., Done]


@pytest.fixture
def piped(tmp_path: Path) -> Piped:
    """Run it to its end with its output into a pipe."""

    def run(*words: str, command: Sequence[str] = TOP) -> Done:
        env = {**os.environ, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}
        pipe = subprocess.PIPE
        return subprocess.run(
            [*command, *words], env=env, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True, timeout=60
        )

    return run


def idle(engine: str) -> Recording:
    """An engine that nobody asks for anything."""
    return Recording(engine, [sys.executable, "-c", IDLE, engine])


@pytest.fixture
def writing(run_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Two processes that write what p0 and d0 would, 11 requests a second."""
    words = [sys.executable, str(WRITER), str(run_dir), "--rate", "300", "--seconds", "100"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, env=env, start_new_session=True)
    yield process
    os.killpg(process.pid, signal.SIGKILL)  # its two engines as well
    process.wait()


def code(text: str) -> int:
    """With which it ended, as the shell says."""
    return int(text.partition("ended with ")[2].partition(":")[0])

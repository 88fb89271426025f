"""Programs that record, started as real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Start = Callable[..., "subprocess.Popen[str]"]

WRITER = """
import sys
from kvscope.probe.recorder import describe, record, text
"""


@pytest.fixture
def start(run_dir: Path) -> Iterator[Start]:
    """start(code, *arguments, **popen): a Python process with pipes; ended with the test if it has not."""
    begun: list[subprocess.Popen[str]] = []

    def run(code: str, *arguments: str, **popen: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", WRITER + code, *arguments]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        begun.append(subprocess.Popen(command, text=True, **{**pipes, **popen}))  # type: ignore[call-overload]
        return begun[-1]

    yield run
    for process in begun:
        process.kill()
        process.communicate()


@pytest.fixture
def small_ring(monkeypatch: pytest.MonkeyPatch) -> int:
    """The capacity of the rings of processes started from here."""
    monkeypatch.setenv("KVSCOPE_RING_EVENTS", "512")
    return 512


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user or to mount")

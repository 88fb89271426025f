"""Blows to an engine: at the part that is named, and what was stopped goes on whatever ends the phase."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kvscope.lab.case import Blow
from kvscope.lab.making import struck
from kvscope.lab.process import Process
from tests.integration.live.conftest import until

WAITS = "import signal; print('up', flush=True); signal.pause()"


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Any]:
    """What looks like a pair: d0 is a process that calls itself EngineCore, p0 one that does not."""
    core = Process("d0", [sys.executable, "-c", WAITS, "EngineCore"], tmp_path / "core.log")
    other = Process("p0", [sys.executable, "-c", WAITS, "Worker"], tmp_path / "other.log")
    for process in (core, other):
        process.start()
        process.wait_for(lambda process=process: process.lines() == ["up"], 20)  # type: ignore[misc]
    yield SimpleNamespace(engines=[SimpleNamespace(name="d0", process=core), SimpleNamespace(name="p0", process=other)])
    for process in (core, other):
        process.stop()


def state(process: Process) -> str:
    assert process.session is not None
    return Path(f"/proc/{process.session.pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_what_was_stopped_goes_on_though_the_phase_failed(pair: Any) -> None:
    core = pair.engines[0].process

    def interrupted() -> None:
        with struck(pair, [Blow(0, "d0", "SIGSTOP", "EngineCore")]):
            until(lambda: state(core) == "T", "it was not stopped")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    until(lambda: state(core) != "T", "it stayed stopped")


def test_only_the_part_that_is_named_is_struck(pair: Any) -> None:
    core, other = (engine.process for engine in pair.engines)
    blows = [Blow(0, "p0", "SIGKILL", "EngineCore"), Blow(0, "d0", "SIGKILL", "EngineCore")]
    with struck(pair, blows):
        until(lambda: core.exit_code is not None, "it was not killed")
    assert other.exit_code is None


def test_a_blow_that_was_not_due_yet_is_not_struck(pair: Any) -> None:
    core = pair.engines[0].process
    with struck(pair, [Blow(600, "d0", "SIGKILL")]):
        pass
    assert core.exit_code is None

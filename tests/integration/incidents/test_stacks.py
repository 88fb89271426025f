"""Stacks from the trigger on, beside the recording."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from kvscope.stacks.reading import read_stacks

from ..live.conftest import Served
from ..stacks.conftest import Worked
from .conftest import Incidents
from .test_triggering import posted

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to read the memory of others")

Keep = Callable[..., Served]


@pytest.fixture
def worked(run_dir: Path, tmp_path: Path) -> Worked:
    """An engine with threads that do something."""
    return Worked("p0", tmp_path / "log")


@pytest.mark.slow
def test_stacks_are_sampled_from_the_trigger_on(keep: Keep, incidents: Incidents, worked: Worked) -> None:
    server = keep("--stacks", "--after", "3s")
    try:
        assert posted(server)[0] == 202
        told = incidents.until(1)
    finally:
        worked.end()
    stacks = read_stacks(incidents.found[0] / "stacks.jsonl")
    times = stacks.samples["t"]
    assert told["stacks"]["samples"] == len(times) > 0
    assert told["stacks"]["faults"] == []
    assert told["times"]["trigger"]["ns"] < times.min()
    assert times.max() - times.min() > 10**9


def test_where_none_can_be_sampled_the_rest_is_saved(keep: Keep, incidents: Incidents, worked: Worked) -> None:
    server = keep("--stacks", "--after", "1s")
    worked.process.send_signal(signal.SIGKILL)
    worked.end()
    assert posted(server)[0] == 202
    told = incidents.until(1)
    assert told["stacks"] == {"faults": ["no process to sample was named"]}
    assert "stacks are missing: no process to sample was named" in server.end()
    assert not (incidents.found[0] / "stacks.jsonl").exists()

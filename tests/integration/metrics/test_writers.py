"""What stands in for engines in tests and benchmarks leaves nobody behind, however it is ended."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from kvscope.probe.reader import list_rings

from ..live.conftest import until
from .test_serving import writing


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_who_writes_ends_with_who_started_it(run_dir: Path, number: int) -> None:
    with writing(run_dir, 600, 600) as writers:
        until(lambda: sum(ring.alive for ring in list_rings(run_dir)) == 2, "they do not write")
        writers.send_signal(number)
        assert writers.wait(60) != 0
    until(lambda: not any(ring.alive for ring in list_rings(run_dir)), "they go on writing")

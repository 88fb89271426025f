"""A whole run: what it leaves in its folder, and that it leaves nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvscope.lab import client
from kvscope.lab.load import LoadOptions
from kvscope.lab.pair import PairOptions
from kvscope.lab.progress import Plain
from kvscope.lab.run import RunOptions, run

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

LOAD = LoadOptions(requests=10, rate=4, input_tokens=((500, 1.0),), output_tokens=8, warm_up=2)


def test_a_pull_run_leaves_recording_client_s_view_and_no_process(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    options = RunOptions(PairOptions(connector="pull"), LOAD)
    result = run(options, folder, Plain())
    assert not result.failed
    assert (result.lost, result.faults) == (0, ())
    assert result.events > 20 * len(result.records)
    assert client.read(folder / "client.jsonl") == list(result.records)
    assert result.recording is not None
    assert result.recording.stat().st_size > 0
    assert not result.run_dir.exists()
    assert not (folder / "pair.json").exists()

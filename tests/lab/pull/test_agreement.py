"""What others show of a real pull pair is what the report says."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvscope.lab.front import RouterProcess
from kvscope.lab.load import LoadOptions
from kvscope.lab.recording import recording
from kvscope.live.regime import PULL
from kvscope.stacks.session import RECORDING
from tests.lab import traced
from tests.lab.rig import Rig
from tests.lab.screens import agrees_with_the_report, top
from tests.lab.terminal import needs_tmux

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]


@needs_tmux
def test_top_says_what_the_report_says(pull_pair: Rig, pull_router: RouterProcess, tmp_path: Path) -> None:
    """First of all: the report then has no other requests than the window."""
    load = LoadOptions(requests=60, rate=5.5, input_tokens=((300, 1.0), (500, 1.0)), output_tokens=8, warm_up=1)
    with top(pull_pair.run_dir, tmp_path) as screen:
        records = pull_pair.load(load, pull_router.url)
        agrees_with_the_report(screen, pull_pair.run_dir, PULL, len(records))


def test_perfetto_s_page_says_what_kvscope_says(pull_pair: Rig, pull_router: RouterProcess, tmp_path: Path) -> None:
    """Next: the rings still hold all that happened."""
    with recording(pull_pair.run_dir, tmp_path / RECORDING):
        records = pull_pair.load(traced.LOAD, pull_router.url)
    assert all(record.ok for record in records)
    with traced.agrees(tmp_path / RECORDING, "pull") as page:
        assert not page.ask(traced.SAMPLED)

"""A real pull pair under light and heavy load: what kvscope says of it is true."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kvscope.lab.load import LoadOptions
from kvscope.lab.pair import Pair, PairOptions
from kvscope.lab.progress import Plain
from kvscope.lab.recording import recording
from kvscope.live.regime import PULL
from kvscope.stacks.session import RECORDING
from tests.lab import claims, traced
from tests.lab.observation import LOADS, observe
from tests.lab.screens import agrees_with_the_report, top
from tests.lab.terminal import needs_tmux

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def pull_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Pair, str]]:
    with Pair(PairOptions(connector="pull"), tmp_path_factory.mktemp("pull"), Plain()) as pair:
        yield pair, pair.router("sequential").url


@needs_tmux
def test_top_says_what_the_report_says(pull_pair: tuple[Pair, str], tmp_path: Path) -> None:
    """First of all: the report then has no other requests than the window."""
    pair, url = pull_pair
    load = LoadOptions(requests=60, rate=5.5, input_tokens=((300, 1.0), (500, 1.0)), output_tokens=8, warm_up=1)
    with top(pair.run_dir, tmp_path) as screen:
        records = pair.load(load, url)
        agrees_with_the_report(screen, pair.run_dir, PULL, len(records))


def test_perfetto_s_page_says_what_kvscope_says(pull_pair: tuple[Pair, str], tmp_path: Path) -> None:
    """Next: the rings still hold all that happened."""
    pair, url = pull_pair
    with recording(pair.run_dir, tmp_path / RECORDING):
        records = pair.load(traced.LOAD, url)
    assert all(record.ok for record in records)
    with traced.agrees(tmp_path / RECORDING, "pull") as page:
        assert not page.ask(traced.SAMPLED)


@LOADS
def test_pull(pull_pair: tuple[Pair, str], load: LoadOptions) -> None:
    pair, url = pull_pair
    seen = observe(pair, url, load)
    claims.hold(seen, "pull")
    assert all(split.knew_peer and "read_handoff" in split.exposed for _, split in seen.pairs)

"""vLLM's own tests for its NIXL connectors end alike with kvscope and without it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvscope.lab import environment
from kvscope.lab.errors import LabError
from kvscope.lab.progress import Silent
from kvscope.probe.vocabulary import MOMENTS
from kvscope.sources.rings import read_rings
from tests.lab.upstream import Outcome, Upstream

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(900)]

AT_LEAST = 700
"""Passed on a CPU when this was written: 750 of 757."""

TAKEN = """
    started queued scheduled computed reserved handed registration_received matched registration_sent
    handshake_begun handshake_ended post_begun prepared posted done_seen noticed ready failed finished released
"""


@pytest.fixture(scope="module")
def upstream() -> Upstream:
    python = environment.prepare(Silent()).python
    try:
        return Upstream(python)
    except LabError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"vLLM's source distribution cannot be had here: {error}")


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rings")


@pytest.fixture(scope="module")
def both(upstream: Upstream, run_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Outcome]:
    """Stock and instrumented, run side by side: much of their time is waiting."""
    scratch = tmp_path_factory.mktemp("upstream")
    stock = upstream.start(scratch / "stock")
    instrumented = upstream.start(scratch / "instrumented", run_dir)
    return (
        upstream.outcome(stock, scratch / "stock", 600),
        upstream.outcome(instrumented, scratch / "instrumented", 600),
    )


def test_every_test_ends_alike(both: tuple[Outcome, Outcome]) -> None:
    stock, instrumented = both
    print(f"\n{stock.passed} of {len(stock.outcomes)} passed in both")
    assert stock.passed >= AT_LEAST
    assert instrumented.outcomes == stock.outcomes


def test_the_tracepoints_took_part_without_an_error_of_their_own(both: tuple[Outcome, Outcome], run_dir: Path) -> None:
    _, instrumented = both
    assert instrumented.how == "import"
    # Where a stand-in for a request holds stand-ins for numbers, there is nothing to record.
    assert {fault: count for fault, count in instrumented.faults.items() if "MagicMock" not in fault} == {}
    seen = {MOMENTS[moment] for moment in read_rings(run_dir).rows["moment"]}
    assert set(TAKEN.split()) <= seen

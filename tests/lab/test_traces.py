"""Traces of real pairs: Perfetto's own page says of every request what kvscope says, and shows the threads' stacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.pictures.perfetto_page import opened
from kvscope.cli import main
from kvscope.core.critical_path import split
from kvscope.lab.load import LoadOptions
from kvscope.lab.pair import PairOptions
from kvscope.lab.recording import recording
from kvscope.sources.opening import open_all
from kvscope.stacks.sampler import Sampler
from kvscope.stacks.session import RECORDING, STACKS
from kvscope.stacks.targets import recording_in
from tests.integration.export import pages
from tests.lab.rig import Rig

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

LOAD = LoadOptions(requests=40, rate=4.0, input_tokens=((300, 1.0), (900, 1.0)), output_tokens=6)
RATE_HZ = 50
CHAINS = {"early": pages.PUSH, "sequential": pages.PUSH, "pull": pages.PULL}

SAMPLED = """
SELECT track.name, count(), sum(dur) FROM slice JOIN track ON track.id = track_id WHERE category = 'doing' GROUP BY 1
"""
DEEPEST = "SELECT max(depth) FROM slice WHERE category = 'stack'"


@pytest.fixture(scope="module")
def push(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of recordings of one push pair: with stacks, dispatched early; and sequentially."""
    folder = tmp_path_factory.mktemp("push-traces")
    rig = Rig(PairOptions(connector="push"), folder / "pair")
    with rig:
        router = rig.front("p0", "d0", way="early")
        (folder / "early").mkdir()
        sampler = Sampler(recording_in(rig.run_dir), folder / "early" / STACKS, RATE_HZ)
        with recording(rig.run_dir, folder / "early" / RECORDING) as tap, sampler:
            records = rig.load(LOAD, router.url)
        assert not tap.faults
        assert not sampler.faults
        router.control(dispatch="sequential")
        (folder / "sequential").mkdir()
        with recording(rig.run_dir, folder / "sequential" / RECORDING):
            records += rig.load(LOAD, router.url)
    assert all(record.ok for record in records)
    return folder


@pytest.fixture(scope="module")
def pull(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recording of a pull pair."""
    folder = tmp_path_factory.mktemp("pull-traces")
    rig = Rig(PairOptions(connector="pull"), folder / "pair")
    with rig:
        router = rig.front("p0", "d0", way="sequential")
        with recording(rig.run_dir, folder / RECORDING):
            records = rig.load(LOAD, router.url)
    assert all(record.ok for record in records)
    return folder / RECORDING


@pytest.mark.parametrize("way", ["early", "sequential"])
def test_push(push: Path, tmp_path: Path, way: str) -> None:
    agrees(push / way / RECORDING, tmp_path / "x.pftrace", way)


def test_pull(pull: Path, tmp_path: Path) -> None:
    agrees(pull, tmp_path / "x.pftrace", "pull")


def agrees(path: Path, trace: Path, way: str) -> None:
    """Export a recording and ask the page about all of it."""
    events = open_all([path], None).events
    requests = list(split(events))
    assert len(requests) >= LOAD.requests
    assert {request.state.value for request in requests} == {"complete"}
    assert main(["export", str(path), "--perfetto", str(trace)]) == 0
    with opened(trace) as page:
        pages.nothing_was_refused(page)
        pages.paths_add_up(page, requests)
        pages.arrows_are_there(page, requests, CHAINS[way])
        pages.threads_are_named(page, events)
        pages.steps_are_all_there(page, events)
        pages.counters_end_right(page, events)
        sampled = {name: (slices, length) for name, slices, length in page.ask(SAMPLED)}
        if way == "early":
            ours = {f"{engine} {role}: doing" for engine in ("p0", "d0") for role in ("core", "worker", "writer")}
            assert ours <= sampled.keys()
            assert all(sampled[name][0] > 1 for name in ours), "other threads may do one thing all the time"
            assert all(length > 0 for _, length in sampled.values()), sampled
            assert page.ask(DEEPEST)[0][0] > 5
        else:
            assert not sampled

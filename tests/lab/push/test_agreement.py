"""Traces of a real push pair in Perfetto's own page, with stacks and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvscope.lab.front import RouterProcess
from kvscope.lab.recording import recording
from kvscope.stacks.sampler import Sampler
from kvscope.stacks.session import RECORDING, STACKS
from kvscope.stacks.targets import recording_in
from tests.lab.rig import Rig
from tests.lab.traced import LOAD, SAMPLED, agrees

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

RATE_HZ = 50
STACKED = "SELECT max(depth) FROM slice WHERE category = 'stack'"


def test_early_with_stacks(push_pair: Rig, push_router: RouterProcess, tmp_path: Path) -> None:
    push_router.control(dispatch="early", hold_ms=0.0)
    sampler = Sampler(recording_in(push_pair.run_dir), tmp_path / STACKS, RATE_HZ)
    with recording(push_pair.run_dir, tmp_path / RECORDING) as tap, sampler:
        records = push_pair.load(LOAD, push_router.url)
    assert not tap.faults
    assert not sampler.faults
    assert all(record.ok for record in records)
    with agrees(tmp_path / RECORDING, "push") as page:
        sampled = {name: (slices, length) for name, slices, length in page.ask(SAMPLED)}
        ours = {f"{engine} {role}: doing" for engine in ("p0", "d0") for role in ("core", "worker", "writer")}
        assert ours <= sampled.keys()
        assert all(sampled[name][0] > 1 for name in ours), "other threads may do one thing all the time"
        assert all(length > 0 for _, length in sampled.values()), sampled
        assert page.ask(STACKED)[0][0] > 5


def test_sequential(push_pair: Rig, push_router: RouterProcess, tmp_path: Path) -> None:
    push_router.control(dispatch="sequential", hold_ms=0.0)
    with recording(push_pair.run_dir, tmp_path / RECORDING):
        records = push_pair.load(LOAD, push_router.url)
    assert all(record.ok for record in records)
    with agrees(tmp_path / RECORDING, "push") as page:
        assert not page.ask(SAMPLED)

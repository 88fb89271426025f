"""A profile of a real push pair that lies in this tree: it agrees with itself, and with what is known of push."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvscope.cli import main
from kvscope.core.critical_path import split
from kvscope.sources import open_sources
from kvscope.stacks.profile import Profile, Share, profile
from kvscope.stacks.reading import read_stacks
from kvscope.stacks.session import STACKS

FOLDER = Path(__file__).parents[3] / "docs" / "pictures" / "push-profile"


@pytest.fixture(scope="module")
def found() -> Profile:
    return profile(read_stacks(FOLDER / STACKS), split(open_sources([FOLDER]).events))


def share(found: Profile, stage: str, engine: str, role: str) -> Share:
    (one,) = [
        share
        for each in found.stages
        if (each.stage, each.engine) == (stage, engine)
        for share in each.shares
        if share.role == role
    ]
    return one


def test_a_role_is_sampled_in_a_stage_for_as_long_as_it_was_open(found: Profile) -> None:
    """At so many samples a second; a stage of a second has fifty, give or take chance and a busy host."""
    long = [each for each in found.stages if each.open_ns > 2e9]
    assert len(long) > 4
    for each in long:
        for role in (part for part in each.shares if part.role in ("core", "worker", "writer")):
            expected = each.open_ns / found.stacks.period_ns
            assert 0.7 * expected < role.samples < 1.2 * expected, (each.stage, each.engine, role.role)


def test_all_that_a_role_did_adds_up_to_its_samples(found: Profile) -> None:
    shares = [*found.whole, *(share for each in found.stages for share in each.shares)]
    assert all(sum(each.doing.values()) == each.samples for each in shares)
    assert sum(each.samples for each in found.whole) == len(found.stacks.samples)


def test_what_is_known_of_push_shows(found: Profile) -> None:
    """Prefill polls once a step, so a transfer that has landed waits while the worker computes."""
    assert found.mapped > 0.95
    for stage in ("prefill_run", "poll_gap"):
        worker = share(found, stage, "p0", "worker")
        assert worker.doing["forward"] > 0.8 * worker.samples
    submit = share(found, "submit", "p0", "writer")
    assert submit.ends
    assert submit.doing["NIXL post"] > 0.5 * submit.samples
    assert found.error_ns[0] < 1e6


@pytest.mark.parametrize("width", ["60", "100", "300"])
def test_the_page_fits(capsys: pytest.CaptureFixture[str], width: str) -> None:
    assert main(["profile", str(FOLDER), "--plain", "--width", width]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= int(width)
    assert any(line.startswith("? poll_gap  p0  open") for line in lines)

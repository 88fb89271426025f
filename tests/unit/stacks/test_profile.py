"""Samples are counted for the stages that were open at their engine, by role and by what the thread did."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kvscope.analysis.render.page import Page
from kvscope.analysis.render.profile import put_profile
from kvscope.model.stages import STAGES
from kvscope.stacks.doing import GIL_WAIT, WAITING
from kvscope.stacks.openings import covered, length
from kvscope.stacks.profile import NOBODY, Profile, Share, StageProfile, profile, while_open
from kvscope.stacks.reading import Stacks

from .scenes import ASLEEP, FORWARD, LOOP, PREPARE, SPIN, Did, push, sampled


def core(ms: int) -> Did:
    return (FORWARD, True, False, False) if ms < 105 else (LOOP, True, False, False)


def writer(ms: int) -> Did:
    """Awake from the hand-over on; it prepares from 108 on, and waits for the GIL after that."""
    if ms < 108:
        return ASLEEP
    return (PREPARE, True, False, False) if ms == 108 else (PREPARE, False, False, ms < 120)


def spinner(ms: int) -> Did | None:
    return (SPIN, True, False, False) if 110 <= ms < 118 else None


@pytest.fixture
def stacks(tmp_path: Path) -> Stacks:
    did = {
        ("p0", "core"): core,
        ("p0", "writer"): writer,
        ("p0", "own-thread"): spinner,
        ("d0", "core"): lambda ms: ASLEEP,
        ("router", "api"): lambda ms: ASLEEP,
    }
    return sampled(tmp_path / "stacks.jsonl", did)


@pytest.fixture
def found(stacks: Stacks) -> Profile:
    return profile(stacks, push())


def stage(found: Profile, name: str, engine: str) -> StageProfile:
    (one,) = [each for each in found.stages if (each.stage, each.engine) == (name, engine)]
    return one


def share(shares: tuple[Share, ...], role: str) -> Share:
    (one,) = [each for each in shares if each.role == role]
    return one


def test_a_stage_has_the_samples_of_its_time_at_its_engine(found: Profile) -> None:
    run = stage(found, "prefill_run", "p0")
    assert (run.requests, run.open_ns, run.exposed_ns) == (1, 100_000_000, 100_000_000)
    assert share(run.shares, "core").doing == {"forward": 100}
    assert share(run.shares, "writer").doing == {WAITING: 100}
    assert {each.engine for each in run.shares} == {"p0"}
    prepare = stage(found, "prepare", "p0")
    assert share(prepare.shares, "writer").doing == {"descriptors": 1}


def test_hidden_stages_count_and_say_that_they_were(found: Profile) -> None:
    flight = stage(found, "registration_flight", "p0")
    assert (flight.open_ns, flight.exposed_ns) == (99_000_000, 0)
    assert share(flight.shares, "writer").samples == 99
    admission = stage(found, "decode_admission", "d0")
    assert (admission.exposed_ns, share(admission.shares, "core").samples) == (0, 1)


def test_notice_is_laid_at_both_doors(found: Profile) -> None:
    assert {each.engine for each in found.stages if each.stage == "notice"} == {"p0", "d0"}


def test_stages_come_in_their_order_and_the_role_that_ends_one_comes_first(found: Profile) -> None:
    order = [each.name for each in STAGES]
    places = [order.index(each.stage) for each in found.stages]
    assert places == sorted(places)
    first, *others = stage(found, "prepare", "p0").shares
    assert (first.role, first.ends, {each.ends for each in others}) == ("writer", True, {False})


def test_gil_waits_and_who_held_it(found: Profile) -> None:
    whole = share(tuple(each for each in found.whole if each.engine == "p0"), "writer")
    assert whole.doing == {WAITING: 108, "descriptors": 21, GIL_WAIT: 11}
    assert sum(whole.held_by.values()) == 11
    # Two threads were said to hold it while the spinner did: the last that was said counts.
    assert whole.held_by == {"own-thread: other: Own.spin (/srv/plugin.py)": 8, "core: engine loop": 3}


def test_nobody_was_seen_to_hold_it(tmp_path: Path) -> None:
    stacks = sampled(tmp_path / "s.jsonl", {("p0", "writer"): lambda ms: (PREPARE, False, False, True)})
    (only,) = profile(stacks, push()).whole
    assert only.held_by == {NOBODY: only.samples}


def test_threads_without_a_role_go_by_their_name_and_lower_what_is_mapped(found: Profile) -> None:
    assert "own-thread" in {each.role for each in found.whole}
    assert found.mapped == pytest.approx(4 * 140 / (4 * 140 + 8))


def test_where_no_thread_has_a_role_that_is_said(tmp_path: Path, found: Profile) -> None:
    none = profile(sampled(tmp_path / "s.jsonl", {("p0", "own-thread"): lambda ms: (SPIN, True, False, False)}), push())
    assert "none of the threads has a role: they record nothing" in page_of(none)
    assert "99% on threads that record" in page_of(found)


def page_of(found: Profile) -> str:
    page = Page(300)
    put_profile(page, found)
    return "\n".join(line.plain for line in page.lines)


def test_only_samples_while_a_stage_was_open(stacks: Stacks) -> None:
    chosen = while_open(stacks, push(), "poll_gap")
    engines = {stacks.threads[sample["thread"]].engine for sample in chosen.samples}
    assert engines == {"p0"}
    assert len(while_open(stacks, push(), "handshake").samples) == 0
    assert profile(stacks, push()).only("poll_gap").stages == (stage(profile(stacks, push()), "poll_gap", "p0"),)


def test_samples_of_another_host_are_mapped_onto_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    splits = push()
    monkeypatch.setattr(type(splits.engines[0]), "host", "aaaaaaaa", raising=False)
    engines = tuple(type(each)(each.engine, each.engine_id, "aaaaaaaa") for each in splits.engines)
    object.__setattr__(splits, "engines", engines)
    stacks = sampled(tmp_path / "s.jsonl", {("p0", "core"): core})
    object.__setattr__(stacks, "boot_id", "bbbbbbbb-0000")
    assert profile(stacks, splits).stages == ()


def test_without_samples_there_is_nothing(tmp_path: Path) -> None:
    stacks = sampled(tmp_path / "s.jsonl", {("p0", "core"): lambda ms: None})
    found = profile(stacks, push())
    assert (found.whole, found.stages, found.span_ns, found.mapped) == ((), (), 0, 0.0)


def test_times_are_covered_by_any_of_several_spans() -> None:
    times = np.arange(10)
    assert covered(times, [(2, 4), (3, 6), (8, 8)]).tolist() == [t in range(2, 6) for t in range(10)]
    assert not covered(times, []).any()
    assert length([(2, 4), (3, 6), (8, 9)]) == 5
    assert length([]) == 0

"""A real push pair: it serves what one engine alone would, and under load what kvscope says of it is true."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from kvscope.lab import affinity
from kvscope.lab.client import ClientRecord
from kvscope.lab.front import RouterProcess
from kvscope.lab.load import LoadOptions, plan, with_prompts
from kvscope.lab.pair import Pair
from kvscope.model.requests import RequestSplit
from kvscope.model.stages import STAGE
from kvscope.sources.rings import read_rings
from tests.lab import claims
from tests.lab.comparison import trade
from tests.lab.holds import HOLDS, Held, hold_by_turns
from tests.lab.observation import HEAVY, LIGHT, LOADS, Observation, observe
from tests.lab.rig import Rig

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

SMALL = LoadOptions(requests=10, rate=4, input_tokens=((500, 1.0),), output_tokens=8, warm_up=2)

# A hold moves `dispatch` by its length; half a millisecond more or less of another stage is nothing. ms.
DISPATCH_MS, RESOLUTION_MS = 2.0, 0.5
NO_CHANCE = 1e-6

Served = Callable[[str, LoadOptions], Observation]

TAIL = " and the rest is the same for each of them, to the last letter"
PROMPTS = [head * 60 + TAIL for head in ("abc", "xyz", "Q7.", "mno")]


@pytest.fixture(scope="module")
def served(push_pair: Rig, push_router: RouterProcess) -> Served:
    """Sends a load, dispatched early or sequentially: once, however many tests look at what came of it."""

    @cache
    def send(dispatch: str, load: LoadOptions) -> Observation:
        push_router.control(dispatch=dispatch, hold_ms=0.0)
        return observe(push_pair, push_router.url, load)

    return send


@pytest.fixture(scope="module")
def held(push_pair: Rig, push_router: RouterProcess) -> Held:
    push_router.control(dispatch="sequential", hold_ms=0.0)
    return hold_by_turns(push_pair, push_router)


@LOADS
def test_early(served: Served, load: LoadOptions) -> None:
    seen = served("early", load)
    claims.hold(seen, "push")
    assert all((split.reserved_idle_ns or 0) > 0 for _, split in seen.pairs)
    assert not any(split.knew_peer for _, split in seen.pairs)


@LOADS
def test_sequential(served: Served, load: LoadOptions) -> None:
    seen = served("sequential", load)
    claims.hold(seen, "push")
    assert all(split.knew_peer for _, split in seen.pairs)


def test_early_hides_the_registration_that_sequential_exposes(served: Served) -> None:
    """Both ways serve the same prompts at the same distances: each request has its pair."""
    hidden: dict[str, list[bool]] = {"early": [], "sequential": []}
    for load in (LIGHT, HEAVY):
        for dispatch, all_hidden in hidden.items():
            seen = served(dispatch, load)
            mine = [registration_hidden(split) for _, split in seen.pairs]
            share = sum(mine) / len(mine)
            print(f"{dispatch} at {load.rate:g}/s: registration hidden in {share:.1%}; {seen.bystanders}")
            # Under heavy load finished blocks reach the writer late, and wait for no registration either way.
            if load is LIGHT and seen.bystanders.quiet:
                assert (share > 0.5) is (dispatch == "early")
            all_hidden += mine
    traded = trade(hidden["early"], hidden["sequential"])
    print(f"hidden by dispatching early alone: {traded.only_first}, sequentially alone: {traded.only_second}")
    assert traded.chance < NO_CHANCE


def registration_hidden(split: RequestSplit) -> bool:
    """Whether it was there before the finished blocks; else these waited for it, and for its dispatch."""
    hidden = "registration_flight" in split.hidden
    assert hidden is ("dispatch" not in split.exposed) is ("registration_flight" not in split.exposed)
    return hidden


@pytest.mark.parametrize("turn", ["50", "200"])
def test_a_hold_between_the_legs_moves_dispatch_and_nothing_else(held: Held, turn: str) -> None:
    """By its length, and other stages by no more than what differs between two turns without."""
    moved = {stage: float(np.median(held.moved(turn, stage))) for stage in STAGE}
    noise = {stage: held.noise(stage) for stage in STAGE}
    off = moved.pop("dispatch") - HOLDS[turn]
    most = max(moved, key=lambda stage: abs(moved[stage]) / max(RESOLUTION_MS, noise[stage]))
    print(f"\n{held.bystanders}\ndispatch {off:+.2f} ms beyond the hold (A/A {noise['dispatch']:.2f})", end="; ")
    print(f"of the others {most} moved most, {moved[most]:+.2f} ms (A/A {noise[most]:.2f})")
    told_apart = max(DISPATCH_MS, noise["dispatch"])  # by this machine: two turns without may differ by so much
    assert abs(off) <= told_apart + held.bystanders.choose(quiet=0.0, busy=min(DISPATCH_MS, noise["dispatch"]))
    beyond = {stage: by for stage, by in moved.items() if abs(by) > max(RESOLUTION_MS, noise[stage])}
    assert not beyond, (beyond, noise)


def tokens(records: list[ClientRecord]) -> list[tuple[int, ...]]:
    return [record.token_ids for record in records if not record.warm_up]


def alone(pair: Pair, prompts: list[str]) -> list[tuple[int, ...]]:
    """What the decode engine makes of the prompts when it computes everything itself."""
    return tokens(pair.load(with_prompts(SMALL, *prompts), pair.decodes[0].url))


@pytest.mark.parametrize("dispatch", ["early", "sequential"])
def test_push_serves_the_tokens_that_one_engine_alone_makes(
    push_pair: Rig, push_router: RouterProcess, dispatch: str
) -> None:
    push_router.control(dispatch=dispatch)
    records = push_pair.load(SMALL, push_router.url)
    assert [record.error for record in records if not record.ok] == []
    assert tokens(records) == alone(push_pair, [planned.prompt for planned in plan(SMALL)])


def test_the_model_s_tokens_depend_on_the_prompt_s_head_through_the_kv_alone(
    push_pair: Rig, push_router: RouterProcess
) -> None:
    handed_over = tokens(push_pair.load(with_prompts(SMALL, *PROMPTS), push_router.url))
    assert len({each[1:] for each in handed_over}) == len(PROMPTS), "decode computes these from the KV it was given"
    assert handed_over == alone(push_pair, PROMPTS)


def test_each_engine_has_cores_of_its_own_and_its_spinner_little_say(push_pair: Rig) -> None:
    shares = affinity.shares(sorted(os.sched_getaffinity(0)), 2)
    for engine, share in zip(push_pair.engines, shares, strict=True):
        threads = affinity.threads(engine.process.members())
        assert {frozenset(os.sched_getaffinity(thread)) for _, thread in threads} == {share}
        nice = [os.getpriority(os.PRIO_PROCESS, thread) for _, thread in threads]
        assert nice.count(affinity.NICENESS) == 1


def test_engines_and_router_are_seen_by_their_names(push_pair: Rig, push_router: RouterProcess) -> None:
    push_pair.load(SMALL, push_router.url)
    assert {process.engine for process in read_rings(push_pair.run_dir).processes} == {"p0", "d0", "router"}

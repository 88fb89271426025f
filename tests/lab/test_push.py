"""A real push pair: it serves what one engine alone would, and under load what kvscope says of it is true."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from kvscope.lab import affinity
from kvscope.lab.client import ClientRecord
from kvscope.lab.front import RouterProcess
from kvscope.lab.load import LoadOptions, plan, with_prompts
from kvscope.lab.pair import Pair, PairOptions
from kvscope.lab.progress import Plain
from kvscope.model.stages import STAGE
from kvscope.sources.rings import read_rings
from tests.lab import claims
from tests.lab.observation import LIGHT, LOADS, Observation, observe

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

SMALL = LoadOptions(requests=10, rate=4, input_tokens=((500, 1.0),), output_tokens=8, warm_up=2)
TAIL = " and the rest is the same for each of them, to the last letter"
PROMPTS = [head * 60 + TAIL for head in ("abc", "xyz", "Q7.", "mno")]


@pytest.fixture(scope="module")
def push_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A pair with the push connector, started once: it takes a minute."""
    with Pair(PairOptions(connector="push"), tmp_path_factory.mktemp("push"), Plain()) as pair:
        yield pair


@pytest.fixture(scope="module")
def push_router(push_pair: Pair) -> RouterProcess:
    """Our router in front of it."""
    return push_pair.router("early")


@LOADS
def test_early(push_pair: Pair, push_router: RouterProcess, load: LoadOptions) -> None:
    push_router.control(dispatch="early", hold_ms=0.0)
    seen = observe(push_pair, push_router.url, load)
    claims.hold(seen, "push")
    assert _registrations_hidden(seen) > 0.1
    assert all((split.reserved_idle_ns or 0) > 0 for _, split in seen.pairs)
    assert not any(split.knew_peer for _, split in seen.pairs)


@LOADS
def test_sequential(push_pair: Pair, push_router: RouterProcess, load: LoadOptions) -> None:
    push_router.control(dispatch="sequential", hold_ms=0.0)
    seen = observe(push_pair, push_router.url, load)
    claims.hold(seen, "push")
    assert all(split.knew_peer for _, split in seen.pairs)
    exposed = [split.exposed.get("dispatch", 0) > 0 for _, split in seen.pairs]
    # The others waited longer for their own blocks to reach the writer: on a busy machine these are many.
    assert np.mean(exposed) > 0.2
    assert 1 - _registrations_hidden(seen) > 0.2


def _registrations_hidden(seen: Observation) -> float:
    """Share of the requests whose registration was there before the finished blocks were."""
    return float(np.mean([split.hidden.get("registration_flight", 0) > 0 for _, split in seen.pairs]))


def test_a_hold_between_the_legs_moves_dispatch_and_nothing_else(push_pair: Pair, push_router: RouterProcess) -> None:
    """One request at a time, so that nothing else waits; holds take turns, two of them being none (A and A')."""
    push_router.control(dispatch="sequential")
    one_by_one = replace(LIGHT, requests=8, rate=1.6, arrivals="fixed", input_tokens=((300, 1.0),), output_tokens=2)
    seen: dict[str, list[Observation]] = {"A": [], "50": [], "200": [], "A'": []}
    for _ in range(4):
        for name, rounds in seen.items():
            push_router.control(hold_ms=float(name) if name.isdigit() else 0.0)
            rounds.append(observe(push_pair, push_router.url, one_by_one))
    push_router.control(hold_ms=0.0)
    medians = {name: _medians(rounds) for name, rounds in seen.items()}
    print("\ndispatch, ms:", {name: round(stages["dispatch"], 2) for name, stages in medians.items()})
    base = {stage: (medians["A"][stage] + medians["A'"][stage]) / 2 for stage in STAGE}
    noise = {stage: abs(medians["A"][stage] - medians["A'"][stage]) for stage in STAGE}
    for hold in (50, 200):
        moved = {stage: medians[str(hold)][stage] - base[stage] for stage in STAGE}
        assert abs(moved.pop("dispatch") - hold) <= 2 + noise["dispatch"]
        beyond = {stage: by for stage, by in moved.items() if abs(by) > max(6.0, 3 * noise[stage], 0.1 * base[stage])}
        assert not beyond, (beyond, noise)


def _medians(rounds: list[Observation]) -> dict[str, float]:
    splits = [split for seen in rounds for _, split in seen.pairs]
    return {stage: float(np.median([split.exposed.get(stage, 0) for split in splits])) / 1e6 for stage in STAGE}


def tokens(records: list[ClientRecord]) -> list[tuple[int, ...]]:
    return [record.token_ids for record in records if not record.warm_up]


def alone(pair: Pair, prompts: list[str]) -> list[tuple[int, ...]]:
    """What the decode engine makes of the prompts when it computes everything itself."""
    return tokens(pair.load(with_prompts(SMALL, *prompts), pair.decodes[0].url))


@pytest.mark.parametrize("dispatch", ["early", "sequential"])
def test_push_serves_the_tokens_that_one_engine_alone_makes(
    push_pair: Pair, push_router: RouterProcess, dispatch: str
) -> None:
    push_router.control(dispatch=dispatch)
    records = push_pair.load(SMALL, push_router.url)
    assert [record.error for record in records if not record.ok] == []
    assert tokens(records) == alone(push_pair, [planned.prompt for planned in plan(SMALL)])


def test_the_model_s_tokens_depend_on_the_prompt_s_head_through_the_kv_alone(
    push_pair: Pair, push_router: RouterProcess
) -> None:
    handed_over = tokens(push_pair.load(with_prompts(SMALL, *PROMPTS), push_router.url))
    assert len({each[1:] for each in handed_over}) == len(PROMPTS), "decode computes these from the KV it was given"
    assert handed_over == alone(push_pair, PROMPTS)


def test_each_engine_has_cores_of_its_own_and_its_spinner_little_say(push_pair: Pair) -> None:
    shares = affinity.shares(sorted(os.sched_getaffinity(0)), 2)
    for engine, share in zip(push_pair.engines, shares, strict=True):
        threads = affinity.threads(engine.process.members())
        assert {frozenset(os.sched_getaffinity(thread)) for _, thread in threads} == {share}
        nice = [os.getpriority(os.PRIO_PROCESS, thread) for _, thread in threads]
        assert nice.count(affinity.NICENESS) == 1


def test_engines_and_router_are_seen_by_their_names(push_pair: Pair, push_router: RouterProcess) -> None:
    push_pair.load(SMALL, push_router.url)
    assert {process.engine for process in read_rings(push_pair.run_dir).processes} == {"p0", "d0", "router"}

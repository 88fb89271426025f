"""A real pair serves what one engine alone would."""

from __future__ import annotations

import os

import pytest

from kvscope.lab import affinity
from kvscope.lab.client import ClientRecord
from kvscope.lab.front import RouterProcess
from kvscope.lab.load import LoadOptions, plan, with_prompts
from kvscope.lab.pair import Pair
from kvscope.sources.rings import read_rings

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

LOAD = LoadOptions(requests=10, rate=4, input_tokens=((500, 1.0),), output_tokens=8, warm_up=2)
TAIL = " and the rest is the same for each of them, to the last letter"
PROMPTS = [head * 60 + TAIL for head in ("abc", "xyz", "Q7.", "mno")]


def tokens(records: list[ClientRecord]) -> list[tuple[int, ...]]:
    return [record.token_ids for record in records if not record.warm_up]


def alone(pair: Pair, prompts: list[str]) -> list[tuple[int, ...]]:
    """What the decode engine makes of the prompts when it computes everything itself."""
    return tokens(pair.load(with_prompts(LOAD, *prompts), pair.decodes[0].url))


@pytest.mark.parametrize("dispatch", ["early", "sequential"])
def test_push_serves_the_tokens_that_one_engine_alone_makes(
    push_pair: Pair, push_router: RouterProcess, dispatch: str
) -> None:
    push_router.control(dispatch=dispatch)
    records = push_pair.load(LOAD, push_router.url)
    assert [record.error for record in records if not record.ok] == []
    assert tokens(records) == alone(push_pair, [planned.prompt for planned in plan(LOAD)])


def test_the_model_s_tokens_depend_on_the_prompt_s_head_through_the_kv_alone(
    push_pair: Pair, push_router: RouterProcess
) -> None:
    handed_over = tokens(push_pair.load(with_prompts(LOAD, *PROMPTS), push_router.url))
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
    push_pair.load(LOAD, push_router.url)
    assert {process.engine for process in read_rings(push_pair.run_dir).processes} == {"p0", "d0", "router"}

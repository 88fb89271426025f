"""Stock and instrumented engines give the same tokens for the same prompts, whichever way the KV goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from kvscope.lab import dispatch
from kvscope.lab.engine import EngineOptions
from kvscope.lab.pair import PairOptions
from kvscope.sources.rings import read_rings
from tests.lab.rig import Body, Rig, decoding, prefilled, prompt

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

WAYS = ("early", "sequential", "pull")
TAIL = prompt(60, 9)
PROMPTS = [prompt(180, head) + TAIL for head in (1, 2, 3, 4)]
TOKENS = 12

Answers = dict[str, list[tuple[int, ...]]]


def pulling(options: EngineOptions, _role: str) -> EngineOptions:
    return replace(options, connector="pull")


def tokens(rig: Rig, way: str) -> list[tuple[int, ...]]:
    """What comes of each prompt, one after the other."""
    return [tuple(answered(rig, way, f"{way}-prompt-{number}", text)) for number, text in enumerate(PROMPTS)]


def answered(rig: Rig, way: str, name: str, text: list[int]) -> list[int]:
    """The tokens of one request: p0 and d0 push, p1 and d1 pull."""
    prefill, decode = (rig["p1"], rig["d1"]) if way == "pull" else (rig["p0"], rig["d0"])
    if way == "early":
        known = dispatch.coordinates(prefilled(prefill, "coordinates", prompt(40, 8)))
        leg = decoding(decode, name, text, dispatch.early_params(known), TOKENS)
        prefilled(prefill, name, text)
    else:
        params = dispatch.sequential_params("pull" if way == "pull" else "push", prefilled(prefill, name, text))
        leg = decoding(decode, name, text, params, TOKENS)
    status, answer = leg.answer()
    assert status == 200, answer
    return ids(answer)


def ids(answer: Body) -> list[int]:
    """The token ids in an answer."""
    found: list[int] = answer["choices"][0]["token_ids"]
    assert len(found) == TOKENS
    return found


def rig(tmp_path_factory: pytest.TempPathFactory, stock: bool) -> Rig:
    """A pushing and a pulling pair."""
    options = PairOptions(connector="push", prefills=2, decodes=2, stock=stock)
    name = "stock" if stock else "instrumented"
    return Rig(options, tmp_path_factory.mktemp(name), {"p1": pulling, "d1": pulling})


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    made = rig(tmp_path_factory, stock=True)
    with made:
        answers = {way: tokens(made, way) for way in WAYS}
        assert len(read_rings(made.run_dir)) == 0
    return answers


@pytest.fixture(scope="module")
def instrumented(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Rig, Answers]]:
    made = rig(tmp_path_factory, stock=False)
    with made:
        yield made, {way: tokens(made, way) for way in WAYS}


@pytest.mark.parametrize("way", WAYS)
def test_the_tokens_are_the_same(stock: Answers, instrumented: tuple[Rig, Answers], way: str) -> None:
    made, answers = instrumented
    assert answers[way] == stock[way]
    for number in range(len(PROMPTS)):
        split = made.of(f"{way}-prompt-{number}")
        assert (split.shape, split.complete) == ("pull" if way == "pull" else "push", True), "and were handed over"


def test_they_depend_on_the_prompt_s_head_through_the_kv_alone(stock: Answers) -> None:
    """Decode computes all but the first from the KV it was given: equal tokens say that the KV was right."""
    for way, answers in stock.items():
        assert len({each[1:] for each in answers}) == len(PROMPTS), way
    assert stock["early"] == stock["sequential"] == stock["pull"]

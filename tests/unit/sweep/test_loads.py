"""What cells send: alike under all modes, and nothing that a cache could know."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvscope.lab.client import ClientRecord
from kvscope.lab.load import plan
from kvscope.lab.sessions import begins
from kvscope.lab.sweeping.cell import MIXED, PRODUCTION, Cell
from kvscope.lab.sweeping.loads import (
    BURST,
    TOGETHER,
    Wording,
    burst,
    letters_per_token,
    sent,
    shown_rate,
    warming,
)
from kvscope.lab.sweeping.plan import SweepOptions
from kvscope.sweep.measured import key_of

OPTIONS = SweepOptions(input_tokens=(300,), requests=20)
MIX = SweepOptions(shape=PRODUCTION, requests=40)
WORDS = Wording("a1b2c3")


def test_modes_get_the_same_lengths_at_the_same_times_under_the_same_keys() -> None:
    early, pull = (sent(Cell(mode, 300, 0.5), OPTIONS, 4.0, WORDS) for mode in ("push-early", "pull"))
    mine, theirs = (plan(each.loads[0]) for each in (early, pull))
    assert [(each.at_s, len(each.prompt)) for each in mine] == [(each.at_s, len(each.prompt)) for each in theirs]
    assert [key_of(each.name) for each in mine] == [key_of(each.name) for each in theirs]
    assert len({key_of(each.name) for each in mine}) == 20
    assert not {each.prompt[:40] for each in mine} & {each.prompt[:40] for each in theirs}
    assert not {each.name for each in mine} & {each.name for each in theirs}


def test_another_rate_another_seed_another_length_come_at_other_times() -> None:
    cell = Cell("pull", 300, 0.5)
    loads = [
        sent(cell, OPTIONS, 4.0, WORDS),
        sent(Cell("pull", 300, 0.6), OPTIONS, 4.0, WORDS),
        sent(cell, replace(OPTIONS, seed=1), 4.0, WORDS),
    ]
    assert len({plan(each.loads[0])[1].at_s for each in loads}) == 3


def test_another_start_sends_other_texts_of_the_same_lengths() -> None:
    cell = Cell("pull", 300, 0.5)
    first, again = (plan(sent(cell, OPTIONS, 4.0, Wording(salt)).loads[0]) for salt in ("one", "two"))
    assert [len(each.prompt) for each in first] == [len(each.prompt) for each in again]
    assert all(one.prompt != other.prompt for one, other in zip(first, again, strict=True))


def test_the_production_shape_has_mixed_lengths_bursts_and_conversations() -> None:
    found = sent(Cell("pull", MIXED, 0.5), MIX, 4.0, WORDS)
    steady, bursts = (plan(each) for each in found.loads)
    assert {len(each.prompt) for each in steady} == set(MIX.prompts)
    starts = [each.at_s for each in bursts]
    assert starts[TOGETHER - 1] - starts[0] < 1 < starts[TOGETHER] - starts[TOGETHER - 1]
    (sessions,) = found.sessions
    assert sessions.turns > 1
    assert found.requests == len(steady) + len(bursts) + sessions.sessions * sessions.turns
    assert abs(found.requests - MIX.requests) <= 3
    assert sorted(begins(sessions)) == begins(sessions)


def test_some_long_prompts_begin_alike_and_no_two_are_the_same() -> None:
    steady, _ = sent(Cell("pull", MIXED, 0.5), replace(MIX, requests=100), 4.0, WORDS).loads
    long = [text for text in steady.prompts if len(text) > 256]
    assert 1 < len({text[:256] for text in long}) < len(long) == len(set(long))


def test_letters_are_as_many_as_the_model_makes_tokens_of() -> None:
    assert len(Wording("s", 1.7).text(100, "x")) == 170
    told = [record(letters=170, tokens=100), record(letters=340, tokens=200)]
    assert letters_per_token(told) == pytest.approx(1.7)
    assert letters_per_token([]) == letters_per_token([replace(told[0], prompt_tokens=0)]) == 1


def test_capacity_is_what_a_burst_was_answered_with() -> None:
    good = [record(sent=0, end=number * 10**8) for number in range(1, 21)]
    assert shown_rate(good) == pytest.approx(10)
    assert shown_rate([*good, replace(record(), status=500)]) == pytest.approx(10)
    assert shown_rate([]) == shown_rate([replace(record(), status=500)]) == 0


@pytest.mark.parametrize("tokens", [300, MIXED])
def test_a_burst_and_a_warm_up_are_counted_nowhere(tokens: int) -> None:
    options = OPTIONS if tokens else MIX
    names = [each.name for each in plan(burst(tokens, options, WORDS))]
    assert len(set(names)) == BURST
    assert all(name.startswith("warmup-") for name in names)
    assert warming(tokens, options, WORDS).warm_up > 0


def record(letters: int = 10, tokens: int = 10, sent: int = 0, end: int = 10**9) -> ClientRecord:
    return ClientRecord(
        "r", False, "x" * letters, tokens, sent, sent, end_ns=end, status=200, output_tokens=2, token_ns=(end,)
    )

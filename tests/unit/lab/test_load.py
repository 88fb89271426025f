"""The load's plan: what is sent and when, before anything is sent."""

from __future__ import annotations

import itertools
from collections import Counter
from statistics import fmean

import pytest

from kvscope.lab.load import LoadOptions, arrivals, mix, plan, with_prompts
from kvscope.model.errors import InputError


def test_a_mix_has_lengths_and_weights() -> None:
    assert mix("500,1000x3, 2000x0.5") == ((500, 1.0), (1000, 3.0), (2000, 0.5))


@pytest.mark.parametrize(
    "text", ["", "x", "500,", "abc", "500x", "500xfoo", "-5", "0", "500x0", "500x-1", "500xinf", "500xnan"]
)
def test_a_mix_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="prompt length"):
        mix(text)


def test_fixed_arrivals_are_evenly_apart() -> None:
    assert list(arrivals(LoadOptions(requests=4, rate=4, arrivals="fixed"))) == [0, 0.25, 0.5, 0.75]


def test_poisson_arrivals_come_at_the_rate_asked_for_and_spread_like_it() -> None:
    times = list(arrivals(LoadOptions(requests=20_001, rate=5)))
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    mean = fmean(gaps)
    spread = fmean((gap - mean) ** 2 for gap in gaps) ** 0.5
    assert mean == pytest.approx(0.2, rel=0.03)
    assert spread == pytest.approx(mean, rel=0.05), "an exponential's deviation equals its mean"


@pytest.mark.parametrize(
    "options", [LoadOptions(rate=rate) for rate in (0, -1, 1e-320)] + [LoadOptions(arrivals="bursty")]
)
def test_arrivals_that_cannot_be_are_refused(options: LoadOptions) -> None:
    with pytest.raises(InputError, match="arrivals"):
        list(arrivals(options))


def test_the_same_seed_plans_the_same_load_and_another_another() -> None:
    options = LoadOptions(requests=20, seed=1)
    assert plan(options) == plan(options)
    assert plan(options) != plan(LoadOptions(requests=20, seed=2))


def test_lengths_are_drawn_by_weight_and_prompts_differ_from_their_first_letters() -> None:
    planned = plan(LoadOptions(requests=4000, input_tokens=((5, 1.0), (20, 3.0))))
    count = Counter(len(each.prompt) for each in planned)
    assert set(count) == {5, 20}
    assert count[20] / 4000 == pytest.approx(0.75, abs=0.03)
    assert len({each.prompt[:4] for each in planned}) > 3900


@pytest.mark.parametrize("options", [LoadOptions(requests=0), LoadOptions(output_tokens=0), LoadOptions(warm_up=-1)])
def test_a_load_that_cannot_be_is_refused(options: LoadOptions) -> None:
    with pytest.raises(InputError, match="at least one"):
        plan(options)


def test_given_prompts_are_sent_once_each() -> None:
    assert [each.prompt for each in plan(with_prompts(LoadOptions(), "one", "two"))] == ["one", "two"]


def test_a_bunch_arrives_together_where_its_last_request_would_have_let_it() -> None:
    options = LoadOptions(requests=4, rate=0.5, arrivals="fixed", bunch=2)
    assert list(arrivals(options)) == [0, 0.1, 4, 4.1]


def test_requests_are_named_as_asked_for_in_turn() -> None:
    assert [each.name for each in plan(LoadOptions(requests=3, names=("a", "b")))] == ["a", "b", "a"]
    assert [each.name for each in plan(LoadOptions(requests=2))] == ["", ""]

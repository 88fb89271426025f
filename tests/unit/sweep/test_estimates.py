"""Figures and their intervals: they hold what they promise, and too few requests give none."""

from __future__ import annotations

import numpy as np
import pytest

from kvscope.sweep.estimates import FEWEST, FEWEST_MEAN, enough_above, mean, percentile

TRUE = {50: 100.0 * np.log(2), 95: 100.0 * np.log(20)}
"""Quantiles of the exponential distribution with mean 100."""


@pytest.mark.parametrize(("percent", "n"), [(50, 60), (95, 200)])
def test_intervals_of_independent_requests_hold_the_true_percentile(percent: int, n: int) -> None:
    rng = np.random.default_rng(3)
    found = [percentile(rng.exponential(100.0, n), percent, seed) for seed in range(100)]
    held = sum(each is not None and each.low <= TRUE[percent] <= each.high for each in found)
    assert held >= 88


def test_neighbours_that_wait_together_widen_the_interval() -> None:
    rng = np.random.default_rng(5)
    bunches = np.repeat(rng.exponential(100.0, 40), 5)
    together, shuffled = mean(bunches), mean(rng.permutation(bunches))
    assert together is not None
    assert shuffled is not None
    assert together.high - together.low > 1.5 * (shuffled.high - shuffled.low)


@pytest.mark.parametrize("percent", [50, 95])
def test_too_few_requests_give_no_percentile(percent: int) -> None:
    fewest = FEWEST[percent]
    assert percentile(np.arange(fewest - 1.0), percent) is None
    found = percentile(np.arange(float(fewest)), percent)
    assert found is not None
    assert found.requests == fewest
    assert found.low <= found.value <= found.high
    assert percentile(np.zeros(0), percent) is None


def test_a_percentile_beyond_what_so_few_show_says_so() -> None:
    few, many = (percentile(np.arange(float(n)), 95) for n in (enough_above(0.95) - 1, enough_above(0.95)))
    assert few is not None
    assert many is not None
    assert (few.open, many.open) == (True, False)


def test_like_and_like_differ_by_no_more_than_chance_however_often_one_looks() -> None:
    rng = np.random.default_rng(7)
    looks = 10
    sweeps = [[mean(rng.normal(0, 50, 40), looks, seed) for seed in range(looks)] for _ in range(40)]
    wrong = sum(any(each is not None and each.sure for each in one) for one in sweeps)
    assert wrong <= 6


def test_a_difference_that_is_there_is_found() -> None:
    rng = np.random.default_rng(9)
    found = mean(rng.normal(-40, 50, 60), 12)
    assert found is not None
    assert found.sure
    assert found.low < -40 < found.high
    assert mean(np.ones(FEWEST_MEAN - 1)) is None

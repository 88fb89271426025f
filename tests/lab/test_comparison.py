"""How sure the comparisons are that tests on real pairs rest on."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lab.comparison import median_interval, trade


@pytest.mark.parametrize(("count", "outside"), [(40, 13), (200, 85)])
def test_the_interval_of_a_median_leaves_out_as_many_on_both_sides(count: int, outside: int) -> None:
    values = np.random.default_rng(1).permutation(count)
    assert median_interval(values, level=0.95) == (outside, count - 1 - outside)


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    chance = np.random.default_rng(2)
    intervals = [median_interval(chance.exponential(size=40), level=0.95) for _ in range(2000)]
    held = np.mean([low <= np.log(2) <= high for low, high in intervals])
    assert 0.95 <= held <= 0.985


def test_few_values_have_no_interval() -> None:
    with pytest.raises(ValueError, match=r"14 values are too few for an interval of 99\.99%"):
        median_interval([0.0] * 14)


def test_only_pairs_that_differ_count_for_chance_and_all_for_the_gain() -> None:
    counted = trade([True] * 9 + [False] + [True] * 30, [False] * 9 + [True] + [True] * 30)
    assert (counted.pairs, counted.only_first, counted.only_second) == (40, 9, 1)
    assert counted.gain == 8 / 40
    assert counted.chance == (1 + 10) / 2**10


def test_no_difference_is_no_evidence() -> None:
    assert trade([True, False], [True, False]).chance == 1

"""Groups at once give what each group alone gives; names are short and still told apart; limits are round."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscope.analysis.bands import percentile_of
from kvscope.live.grouping import grouped_mean, grouped_percentile, grouped_sum
from kvscope.live.levels import LEVELS, levels_from_the_bottom, levels_from_the_top
from kvscope.live.naming import natural, told_apart

GROUPED = st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 5)), max_size=60)
NAME = st.lists(st.sampled_from(["d", "p", "-", ".", ":", "7", "10", "eu"]), min_size=1, max_size=6).map("".join)


@given(GROUPED, st.sampled_from([50.0, 95.0, 99.0]))
def test_a_percentile_of_each_group_is_that_of_its_values(rows: list[tuple[int, int]], percentile: float) -> None:
    values, group = (np.array(column, np.int64) for column in (zip(*rows, strict=True) if rows else ((), ())))
    found = grouped_percentile(values, group, 6, percentile)
    for index in range(6):
        mine = values[group == index]
        assert np.isnan(found[index]) if not len(mine) else found[index] == percentile_of(mine, percentile)
    assert grouped_sum(values, group, 6).tolist() == [float(values[group == index].sum()) for index in range(6)]
    means = grouped_mean(values, group, 6)
    assert np.isnan(means).tolist() == [not (group == index).any() for index in range(6)]


@pytest.mark.parametrize(
    ("names", "short", "pattern"),
    [
        (["d-9", "d-10"], ["9", "10"], "d-*"),
        (["d-19", "d-12"], ["19", "12"], "d-*"),
        (["10.0.3.17:7100", "10.0.3.18:7100"], ["17", "18"], "10.0.3.*:7100"),
        (["alpha", "alto"], ["alpha", "alto"], ""),
        (["d0", "d0-dp1"], ["d0", "d0-dp1"], ""),
        (["d0"], ["d0"], ""),
        ([], [], ""),
    ],
)
def test_names_are_as_short_as_still_tells_them_apart(names: list[str], short: list[str], pattern: str) -> None:
    assert told_apart(names) == (short, pattern)


@given(st.lists(NAME, min_size=2, max_size=8, unique=True))
def test_shortened_names_are_different_and_can_be_made_whole(names: list[str]) -> None:
    short, pattern = told_apart(names)
    assert len(set(short)) == len(names)
    head, _, tail = pattern.partition("*")
    assert [f"{head}{own}{tail}" for own in short] == names


def test_numbers_in_names_are_ordered_as_numbers() -> None:
    assert sorted(["d-10", "d-9", "d", "a-11"], key=natural) == ["a-11", "d", "d-9", "d-10"]


@given(st.floats(1e-3, 1e12))
def test_levels_reach_the_greatest_and_the_least(value: float) -> None:
    top, bottom = levels_from_the_top(value), levels_from_the_bottom(value)
    assert len(top.limits) == len(bottom.limits) == LEVELS - 1
    assert (top.of(np.array([value, 0.0])) == [LEVELS - 1, 0]).all()
    assert (bottom.of(np.array([value, 1e15])) == [0, LEVELS - 1]).all()
    assert value / 2 < top.limits[-1] <= value < bottom.limits[0] <= value * 2


def test_levels_stay_while_values_move_a_little() -> None:
    assert levels_from_the_top(1_312e6) == levels_from_the_top(1_290e6)


@pytest.mark.parametrize(
    ("greatest", "limits"), [(0, ()), (1, (1,)), (3, (1, 2, 3)), (12, (2, 3, 5, 7, 10)), (40, (7, 10, 15, 20, 30))]
)
def test_counts_have_whole_limits_and_none_is_a_level_of_its_own(greatest: int, limits: tuple[int, ...]) -> None:
    assert levels_from_the_top(greatest, whole=True).limits == limits

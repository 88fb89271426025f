"""How cores are shared out."""

from __future__ import annotations

import pytest

from kvscope.lab.affinity import shares, spins


def test_two_engines_on_two_cores_get_one_each() -> None:
    assert shares([0, 1], 2) == [{0}, {1}]


def test_more_cores_are_shared_evenly_and_the_rest_is_nobody_s() -> None:
    assert shares([0, 1, 2, 3, 4, 5, 6], 3) == [{0, 1}, {2, 3}, {4, 5}]


def test_fewer_cores_than_engines_are_taken_in_turn() -> None:
    assert shares([4, 6], 3) == [{4}, {6}, {4}]


def test_no_core_is_shared_when_there_are_enough() -> None:
    given = shares(list(range(16)), 5)
    assert sum(map(len, given)) == len(frozenset().union(*given))


@pytest.mark.parametrize(("ran", "waited"), [(0.96, 0.04), (0.44, 0.56), (0.05, 0.9)])
def test_what_runs_as_much_as_it_may_spins(ran: float, waited: float) -> None:
    assert spins(ran, waited)


@pytest.mark.parametrize(("ran", "waited"), [(0.001, 0.75), (0.3, 0.1), (0.0, 0.0)])
def test_what_hardly_runs_or_rests_does_not_spin(ran: float, waited: float) -> None:
    assert not spins(ran, waited)

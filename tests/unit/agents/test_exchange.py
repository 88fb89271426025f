"""What an exchange says of two clocks."""

from __future__ import annotations

from kvscope.model.exchange import Exchange

THERE, BACK, WORK = 4, 7, 2


def exchange(offset: int) -> Exchange:
    return Exchange("a", "b", 100, 100 + THERE + offset, 100 + THERE + WORK + offset, 100 + THERE + WORK + BACK)


def test_the_round_trip_is_time_on_the_way_whatever_lies_between_the_clocks() -> None:
    assert {exchange(offset).round_trip_ns for offset in (-(10**15), 0, 10**15)} == {THERE + BACK}


def test_its_bounds_hold_what_lies_between_the_clocks() -> None:
    found = exchange(1000)
    assert found.replied - found.back == 1000 - BACK
    assert found.received - found.sent == 1000 + THERE


def test_what_no_clock_shows_is_not_possible() -> None:
    assert exchange(50).possible
    assert not Exchange("a", "b", 100, 200, 199, 300).possible
    assert not Exchange("a", "b", 100, 200, 201, 99).possible
    assert not Exchange("a", "b", 100, 200, 320, 210).possible

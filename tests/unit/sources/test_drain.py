"""What a drain takes, and what it counts, as a writer goes on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscope.probe import layout
from kvscope.sources.drain import RingDrain
from kvscope.sources.records import RECORD

CAPACITY = 256


class Writer:
    """A ring and the way a probe writes it: body first, sequence last."""

    def __init__(self) -> None:
        self.slots = np.zeros(CAPACITY, RECORD)
        self.index = 0

    def write(self, count: int) -> None:
        for _ in range(count):
            self.begin()
            self.publish(self.index - 1)

    def begin(self) -> int:
        """A body written, its sequence not yet."""
        slot = self.slots[self.index % CAPACITY : self.index % CAPACITY + 1]
        slot["t"] = self.index * 10
        self.index += 1
        return self.index - 1

    def publish(self, index: int) -> None:
        self.slots[index % CAPACITY : index % CAPACITY + 1]["sequence"] = index + 1


@given(st.lists(st.integers(0, 3 * CAPACITY), max_size=12))
def test_taken_and_lost_are_all_that_was_written(bursts: list[int]) -> None:
    writer, taken = Writer(), []
    drain = RingDrain(writer.slots)
    for burst in bursts:
        writer.write(burst)
        found = drain.take()
        assert (found["t"] == (found["sequence"].astype("i8") - 1) * 10).all()
        taken += found["sequence"].tolist()
        assert len(taken) + drain.lost == writer.index
    assert taken == sorted(set(taken))


def test_nothing_is_lost_up_to_the_guard() -> None:
    writer = Writer()
    drain = RingDrain(writer.slots)
    writer.write(CAPACITY - layout.GUARD)
    assert len(drain.take()) == CAPACITY - layout.GUARD
    assert drain.lost == 0


def test_a_lap_leaves_all_but_the_guard() -> None:
    writer = Writer()
    drain = RingDrain(writer.slots)
    writer.write(10 * CAPACITY + 7)
    assert len(drain.take()) == CAPACITY - layout.GUARD
    assert drain.lost == 9 * CAPACITY + 7 + layout.GUARD


def test_a_record_begun_and_not_published_waits() -> None:
    writer = Writer()
    drain = RingDrain(writer.slots)
    writer.write(5)
    begun = writer.begin()
    assert len(drain.take()) == 5
    assert len(drain.take()) == 0
    writer.publish(begun)
    assert drain.take()["sequence"].tolist() == [6]
    assert drain.lost == 0


def test_a_record_within_a_record_waits_for_the_outer_one() -> None:
    writer = Writer()
    drain = RingDrain(writer.slots)
    outer = writer.begin()
    writer.write(3)
    assert len(drain.take()) == 0
    writer.publish(outer)
    assert drain.take()["sequence"].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("ended", [False, True])
def test_a_record_never_published_is_counted_and_passed(ended: bool) -> None:
    writer = Writer()
    drain = RingDrain(writer.slots)
    writer.write(4)
    writer.begin()
    writer.write(2 if ended else layout.GUARD + 1)
    taken = np.concatenate([drain.take(ended), drain.take(ended)])
    assert len(taken) == writer.index - 1
    assert drain.lost == 1


def test_what_the_writer_is_inside_of_is_not_trusted() -> None:
    writer = Writer()
    drain = RingDrain(writer.slots)
    writer.write(CAPACITY)
    writer.begin()  # over the oldest record, whose sequence still stands
    found = drain.take()
    assert (found["t"] == (found["sequence"].astype("i8") - 1) * 10).all()
    assert len(found) + drain.lost == CAPACITY


def test_a_writer_that_laps_between_copy_and_check_costs_only_counted_records(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer()
    drain = RingDrain(writer.slots)
    writer.write(200)
    copy = drain._copy

    def overtaken(begin: int, end: int) -> object:
        writer.write(150)
        return copy(begin, end)

    monkeypatch.setattr(drain, "_copy", overtaken)
    found = drain.take()
    assert (found["t"] == (found["sequence"].astype("i8") - 1) * 10).all()
    assert len(found) + drain.lost == 200
    assert drain.lost == 350 - CAPACITY + layout.GUARD

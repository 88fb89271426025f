"""What overlaps lies on different lanes, and no more lanes are made than overlap."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvscope.export.perfetto import lanes as lanes_module
from kvscope.export.perfetto.lanes import MEMORY_NS, Lanes, Sequence

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 15)), min_size=1, max_size=40)


def touching(one: tuple[int, int], two: tuple[int, int]) -> bool:
    return one[0] <= two[1] and two[0] <= one[1]


@given(SPANS, st.integers(1, 40))
def test_nothing_on_a_lane_touches(spans: list[tuple[int, int]], batch: int) -> None:
    lanes, placed = Lanes(), list[tuple[int, tuple[int, int]]]()
    for at in range(0, len(spans), batch):
        begin, length = np.array(spans[at : at + batch], np.int64).T
        found = lanes.place(begin, begin + length).tolist()
        placed += zip(found, zip(begin.tolist(), (begin + length).tolist(), strict=True), strict=True)
    for index, (lane, span) in enumerate(placed):
        assert not any(other == lane and touching(span, there) for other, there in placed[:index])


@given(SPANS)
def test_as_few_lanes_as_there_can_be(spans: list[tuple[int, int]]) -> None:
    begin, length = np.array(spans, np.int64).T
    found = Lanes().place(begin, begin + length)
    most = max(int(((begin <= t) & (begin + length >= t)).sum()) for t in begin.tolist())
    assert found.max() + 1 == most


def test_what_is_long_over_takes_no_room() -> None:
    lanes = Lanes()
    step = MEMORY_NS // 100
    for batch in range(40):
        begin = (np.arange(lanes_module._OFTEN) + batch * lanes_module._OFTEN) * step
        assert (lanes.place(begin, begin + 1) == 0).all()
    assert len(lanes._begins[0]) < 2 * lanes_module._OFTEN
    assert lanes.place(np.array([step]), np.array([step + 1])).tolist() == [1], "what was there is not known any more"


@given(SPANS, st.integers(1, 40))
def test_a_sequence_may_touch_but_not_overlap(spans: list[tuple[int, int]], batch: int) -> None:
    ordered = sorted((begin + length, begin) for begin, length in spans)
    sequence, placed = Sequence(), list[tuple[int, int, int]]()
    for at in range(0, len(ordered), batch):
        end, begin = np.array(ordered[at : at + batch], np.int64).T
        placed += zip(sequence.place(begin, end).tolist(), begin.tolist(), end.tolist(), strict=True)
    for index, (lane, begin_at, _) in enumerate(placed):
        assert all(end <= begin_at for other, _, end in placed[:index] if other == lane)


def test_steps_one_after_the_other_share_a_lane() -> None:
    sequence = Sequence()
    for batch in range(3):
        begin = np.arange(100) * 10 + batch * 1000
        assert (sequence.place(begin, begin + 10) == 0).all()

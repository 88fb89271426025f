"""Sizes after rounding are near, in order, and few."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvscope.probe.vocabulary import UNKNOWN
from kvscope.sharing.rounding import EXACT, MOST, rounded, rounded_one

SIZES = st.integers(0, MOST) | st.integers(0, 5000)


@given(SIZES)
def test_off_by_a_ninth_at_most(size: int) -> None:
    near = rounded_one(size)
    assert abs(near - size) * 9 <= size
    assert near == size or size >= EXACT
    assert rounded_one(near) == near


@given(SIZES, SIZES)
def test_in_order_as_before(one: int, other: int) -> None:
    assert (rounded_one(one) <= rounded_one(other)) or one > other


def test_four_to_each_doubling() -> None:
    assert sorted({rounded_one(size) for size in range(1000, 8193)}) == [
        *(1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192),
    ]
    assert [rounded_one(size) for size in range(EXACT + 1)] == list(range(EXACT + 1))


def test_what_is_no_size_is_not_known() -> None:
    found = rounded(np.array([UNKNOWN, -1, 0, 2**63 - 1, 7, 9]))
    assert found.tolist() == [UNKNOWN, UNKNOWN, 0, MOST, 7, 10]

"""A py-spy of which everything is known: when it looked, what it wrote down, what it had read by when."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from kvscope.stacks.pinning import Anchor, Counted, pinned, unchanged

MS = 1_000_000
THREADS = 7
SPACING_NS = 2_500_000


@dataclass
class World:
    """Looks at random times, of which some found something changed; and askings, not quite regular."""

    zero: int
    looks: np.ndarray
    changed: np.ndarray
    """(n,) bool"""
    asked: np.ndarray

    @property
    def us(self) -> np.ndarray:
        """What is in the trace: written down 100 to 400 us after each look, in its own count of time."""
        late = np.random.default_rng(5).integers(100_000, 400_000, len(self.looks))
        return np.asarray(((self.looks + late - self.zero) // 1000)[self.changed])

    def counted(self, under_way: bool = False) -> Counted:
        """What the kernel had counted. `under_way`: now and then in the middle of a look."""
        before = np.searchsorted(self.looks, self.asked, side="right")
        reads = 1234 + THREADS * before
        if under_way:
            near = np.searchsorted(self.looks, self.asked + 200_000, side="right") > before
            reads = reads + 3 * near
        return Counted.of([(t, count, THREADS) for t, count in zip(self.asked.tolist(), reads.tolist(), strict=True)])


def world(seed: int, share_changed: float = 0.5, rate_hz: float = 100.0) -> World:
    random = np.random.default_rng(seed)
    zero = int(random.integers(10**12, 10**13))
    looks = zero + 50 * MS + np.cumsum(random.exponential(1e9 / rate_hz, 500)).astype(np.int64)
    asked = zero + np.cumsum(random.uniform(0.8, 1.6, 4000) * SPACING_NS).astype(np.int64)
    asked = asked[asked < looks[-1] + 20 * MS]
    return World(zero, looks, random.random(len(looks)) < share_changed, asked)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("under_way", [False, True])
def test_the_zero_lies_within_the_error_that_is_told(seed: int, under_way: bool) -> None:
    made = world(seed)
    rough = Anchor(made.zero - 6 * MS, made.zero - 8 * MS, made.zero + 9 * MS)
    found = pinned(rough, made.counted(under_way), made.us)
    # Looks are written down a little late: the time of the look itself is what is wanted.
    assert found.low_ns <= made.zero <= found.high_ns + 400_000
    assert found.error_ns < 2 * MS < rough.error_ns


def test_few_looks_leave_it_rough() -> None:
    made = world(1)
    rough = Anchor(made.zero, made.zero - MS, made.zero + MS)
    assert pinned(rough, made.counted(), made.us[:5]) == rough


def test_a_count_that_stands_still_leaves_it_rough() -> None:
    made = world(1)
    rough = Anchor(made.zero, made.zero - MS, made.zero + MS)
    still = Counted.of([(t, 77, THREADS) for t in made.asked.tolist()])
    assert pinned(rough, still, made.us) == rough
    assert unchanged(still, made.looks) == []


@pytest.mark.parametrize("share_changed", [0.1, 0.5, 0.9])
def test_looks_that_found_nothing_changed_are_found_where_they_were(share_changed: float) -> None:
    made = world(3, share_changed)
    stamps = made.zero + made.us * 1000
    found = np.array(unchanged(made.counted(), stamps))
    hidden = made.looks[~made.changed]
    # Some are lost where two fell between the same askings as one of the trace, and its stamp came later.
    assert 0.9 * len(hidden) <= len(found) <= 1.05 * len(hidden)
    nearest = np.abs(found[:, None] - made.looks[None, :]).min(axis=1)
    assert np.quantile(nearest, 0.95) <= 2 * SPACING_NS


def test_every_look_in_the_trace_leaves_none_over() -> None:
    made = world(4, share_changed=1.1)
    assert len(unchanged(made.counted(), made.zero + made.us * 1000)) <= 2


@pytest.mark.parametrize("counts", [[], [(5, 1, 2)]])
def test_nothing_was_counted(counts: list[tuple[int, int, int]]) -> None:
    assert unchanged(Counted.of(counts), np.array([1, 2, 3])) == []

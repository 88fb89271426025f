"""What is laid down comes back whole, whatever lies beside it."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscope.core import shelf as shelf_module
from kvscope.core.shelf import Shelf, ranges
from kvscope.model.events import EVENT

PUTS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5)), min_size=1, max_size=6)
"""(owner, how many rows) of one laying down"""


def pairs(rows: np.ndarray, ids: np.ndarray) -> list[tuple[int, int]]:
    return sorted(zip(rows["t"].tolist(), ids.tolist(), strict=True))


@given(st.lists(st.tuples(PUTS, st.sets(st.integers(0, 6))), max_size=12), st.integers(0, 8))
def test_it_gives_back_what_was_put(turns: list[tuple[list[tuple[int, int]], set[int]]], waste: int) -> None:
    shelf, expected, t = Shelf(), defaultdict[int, list[tuple[int, int]]](list), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shelf_module, "WASTE", waste)
        for puts, wanted in turns:
            owners = sorted({owner for owner, _ in puts})
            which = np.array([owners.index(owner) for owner, count in puts for _ in range(count)], np.int64)
            rows = np.zeros(len(which), EVENT)
            rows["t"] = np.arange(t, t + len(rows))
            ids = rows["t"].astype(np.uint64) * 7
            for row, at in enumerate(which.tolist()):
                expected[owners[at]].append((t + row, 7 * (t + row)))
            t += len(rows)
            shelf.put(owners, which, rows, ids)
            assert pairs(*shelf.take(wanted)) == sorted(pair for owner in wanted for pair in expected.pop(owner, []))
            assert len(shelf) == sum(map(len, expected.values()))
            assert sorted(shelf.rows["t"].tolist()) == sorted(at for some in expected.values() for at, _ in some)


def test_room_of_what_was_taken_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf_module, "WASTE", 10)
    shelf = Shelf()
    for turn in range(50):
        shelf.put([2 * turn, 2 * turn + 1], np.array([0] * 9 + [1]), np.zeros(10, EVENT), np.zeros(10, np.uint64))
        shelf.take([2 * turn])
    assert len(shelf) == 50
    assert sum(len(rows) for rows, _ in shelf._slabs.values()) <= 2 * 50 + 10


def test_stretches_one_after_the_other() -> None:
    assert ranges(np.array([5, 0, 9]), np.array([7, 0, 12])).tolist() == [5, 6, 9, 10, 11]

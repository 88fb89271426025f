"""Rows held by leg, a few at a time, are told apart as if all had come at once."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kvscope.core.held import Held, legs_among
from kvscope.core.legs import PREFILL, by_attempt, leg_hash, roles
from kvscope.model.events import EVENT, stacked
from kvscope.probe.vocabulary import MOMENT_CODE

KINDS = ("arrived", "registration_received", "matched", "finished")


@st.composite
def batches(draw: st.DrawFn) -> list[np.ndarray]:
    """Rows of a few requests on both legs, whose beginnings may come twice."""
    found = []
    for size in draw(st.lists(st.integers(0, 6), min_size=1, max_size=6)):
        rows = np.zeros(size, EVENT)
        for row in rows:
            row["request"], row["peer"] = draw(st.integers(1, 4)), draw(st.integers(0, 4))
            row["leg"], row["t"] = draw(st.integers(PREFILL, PREFILL + 1)), draw(st.integers(1, 30))
            row["moment"] = MOMENT_CODE[draw(st.sampled_from(KINDS))]
        found.append(rows)
    return found


def ids_of(rows: np.ndarray) -> np.ndarray:
    return leg_hash(np.zeros(len(rows), np.int32), rows["request"], roles(rows))


@given(batches(), st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_legs_are_those_of_all_rows_together(parts: list[np.ndarray], chance: Random) -> None:
    held = Held()
    for rows in parts:
        held.add(rows, ids_of(rows))
        kept = np.array([chance.random() < 0.8 for _ in range(len(held))], bool)
        held.keep(held.of_legs(held.legs_of(kept)))
        hashes, again = by_attempt(held.rows, held.ids)
        legs, leg = legs_among(held.rows, hashes)
        assert bool(held.again) == bool(again)
        assert held.legs.tolist() == legs.tolist()
        assert held.leg.tolist() == leg.tolist()


@given(batches(), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_prefill_legs_go_with_the_legs_that_name_them_or_that_they_name(
    parts: list[np.ndarray], chance: Random
) -> None:
    held = Held()
    for rows in parts:
        held.add(rows, ids_of(rows))
    chosen = np.array([chance.random() < 0.4 for _ in range(len(held.hash))], bool)
    legs = [stacked([held.rows[held.leg == number]]) for number in range(len(held.hash))]
    names = [set(rows["peer"].tolist()) - {0} for rows in legs]
    bears = [int(rows["request"][0]) for rows in legs]
    ours = [number for number in range(len(legs)) if chosen[number]]
    expected = chosen.copy()
    for number, rows in enumerate(legs):
        if roles(rows)[0] == PREFILL:
            expected[number] |= any(bears[number] in names[one] or bears[one] in names[number] for one in ours)
    assert held.with_prefill(chosen).tolist() == expected[held.leg].tolist()

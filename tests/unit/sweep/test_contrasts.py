"""Mode against mode: request by request, and only what was sent the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kvscope.analysis.bands import class_ns
from kvscope.lab.sweeping.cell import TARGET, Cell
from kvscope.sweep.contrasts import contrasts
from kvscope.sweep.measured import Measured, key_of

from .scenes import measured, outside, whole

EARLY, PULL = Cell("push-early", 1000, 0.5), Cell("pull", 1000, 0.5)


def slower(each: Measured, ms: float) -> Measured:
    records = tuple(
        replace(record, token_ns=tuple(t + round(ms * 1e6) for t in record.token_ns)) for record in each.records
    )
    return replace(each, records=records)


def test_each_mode_is_held_against_each_other_once() -> None:
    found = contrasts(whole().cells)
    assert [each.words for each in found] == [
        "push early against push sequential",
        "push early against pull",
        "push sequential against pull",
    ]
    assert all(each.inside for each in found)


def test_the_parts_of_a_difference_add_up_to_it() -> None:
    for each in contrasts(whole().cells):
        assert each.ttft is not None
        assert sum(ns for _, ns in each.classes) == pytest.approx(each.ttft.value, abs=1)
        assert each.ttft.requests == each.pairs


def test_classes_are_those_of_the_same_requests() -> None:
    one, other = measured(EARLY), measured(PULL, most=30)
    (found,) = contrasts([one, other])
    assert one.inside is not None
    assert other.inside is not None
    keys = {key_of(other.inside.timed.text(row)) for row in range(len(other.inside.timed))}
    timed = one.inside.timed
    rows = np.array([row for row in range(len(timed)) if key_of(timed.text(row)) in keys])
    apart = class_ns(timed.exposed[rows]).mean(axis=0) - class_ns(other.inside.timed.exposed).mean(axis=0)
    assert [ns for _, ns in found.classes] == pytest.approx(apart.tolist())
    assert (found.pairs, found.left_out) == (len(rows), len(timed) - len(rows))


def test_a_mode_that_is_slower_by_so_much_is_told_by_as_much() -> None:
    base = outside(PULL, [300.0 + number % 7 for number in range(40)])
    (found,) = contrasts([slower(replace(base, cell=EARLY), 25.0), base])
    assert found.ttft is not None
    assert found.ttft.value == pytest.approx(25e6, abs=1)
    assert (found.verdict, found.inside, found.classes) == ("higher", False, ())


def test_a_failed_request_takes_its_like_out_and_is_counted() -> None:
    one, other = outside(EARLY, [300.0] * 20, ["boom"] * 2), outside(PULL, [300.0] * 22)
    (found,) = contrasts([one, other])
    assert (found.pairs, found.left_out) == (20, 2)


def test_where_one_has_no_recording_both_are_as_their_clients_saw_them() -> None:
    one, other = measured(EARLY), outside(PULL, [310.0] * 40)
    (found,) = contrasts([one, other])
    assert not found.inside
    assert found.ttft is not None
    assert found.ttft.value == pytest.approx(-10e6, abs=1)


def test_too_few_are_told_as_such() -> None:
    (found,) = contrasts([outside(EARLY, [1.0] * 5), outside(PULL, [2.0] * 5)])
    assert (found.ttft, found.verdict, found.pairs) == (None, "too few", 5)


def test_other_loads_and_targets_are_not_compared() -> None:
    assert contrasts([outside(EARLY, [1.0] * 20), outside(Cell("pull", 1000, 0.6), [1.0] * 20)]) == []
    target = Cell(TARGET.name, 1000, 0.5)
    assert contrasts([outside(target, [1.0] * 20), outside(EARLY, [1.0] * 20)]) == []

"""Objectives: how they are written, and who has kept them."""

from __future__ import annotations

import numpy as np
import pytest

from kvscope.analysis.objectives import Objectives, attained, duration_ns, parse_objectives
from kvscope.model.errors import InputError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ttft=800ms,tpot=30ms", Objectives(800_000_000, 30_000_000)),
        ("TPOT=1.5s", Objectives(None, 1_500_000_000)),
        (" ttft = 2m ", Objectives(120_000_000_000, None)),
    ],
)
def test_objectives_are_read(text: str, expected: Objectives) -> None:
    assert parse_objectives(text) == expected


@pytest.mark.parametrize(
    "text", ["", "ttft", "ttft=", "ttft=800", "ttft=-1s", "e2e=3s", "ttft=1s,ttft=2s", "ttft=1 year"]
)
def test_what_is_not_an_objective_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InputError, match="800ms"):
        parse_objectives(text)


def test_a_length_of_time_needs_a_unit() -> None:
    with pytest.raises(InputError, match="unit"):
        duration_ns("60")


@pytest.mark.parametrize("text", ["999999999999s", "9" * 400 + "s"])
def test_a_time_that_no_clock_holds_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="longer than a year"):
        duration_ns(text)


def test_all_objectives_have_to_be_kept() -> None:
    ttft = np.array([700, 800, 900], np.int64) * 1_000_000
    tpot = np.array([31.0, 30.0, np.nan]) * 1_000_000
    found = attained(parse_objectives("ttft=800ms,tpot=30ms"), ttft, tpot, failed=0, overdue=0, seconds=2.0)
    assert (found.ttft_met, found.tpot_met, found.met) == (2, 2, 1)
    assert found.goodput == 0.5


def test_failed_and_overdue_requests_have_missed() -> None:
    found = attained(Objectives(1), np.zeros(3), np.full(3, np.nan), failed=2, overdue=5, seconds=0.0)
    assert (found.judged, found.met) == (10, 3)
    assert found.goodput is None

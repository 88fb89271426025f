"""Nothing is found where nothing went wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kvscope.diagnosis.baseline import Comparison
from kvscope.diagnosis.evidence import Evidence
from kvscope.diagnosis.findings import diagnose
from kvscope.model.events import Events

from .conftest import Diagnose
from .real import RECORDINGS, recording

Gather = Callable[[Events], Evidence]


@pytest.mark.parametrize("name", RECORDINGS)
def test_nothing_is_found_in_a_healthy_recording(name: str, diagnosed: Diagnose) -> None:
    found = diagnosed(recording(name))
    assert found.findings == ()
    assert found.judged == found.timed == 63


@pytest.mark.parametrize("name", RECORDINGS)
@pytest.mark.parametrize("later", [False, True])
def test_nor_in_one_half_beside_the_other(name: str, later: bool, evidence_of: Gather) -> None:
    whole = evidence_of(recording(name))
    half = (np.arange(len(whole)) < len(whole) // 2) != later
    assert diagnose(whole, Comparison(whole.select(half), whole.select(~half))).findings == ()


@pytest.mark.parametrize("name", RECORDINGS)
@pytest.mark.parametrize("seed", range(10))
def test_nor_in_any_half(name: str, seed: int, evidence_of: Gather) -> None:
    whole = evidence_of(recording(name))
    half = np.random.default_rng(seed).random(len(whole)) < 0.5
    assert diagnose(whole, Comparison(whole.select(half), whole.select(~half))).findings == ()


@pytest.mark.parametrize("name", RECORDINGS)
@pytest.mark.parametrize("part", range(4))
def test_nor_in_a_part_of_one(name: str, part: int, evidence_of: Gather) -> None:
    whole = evidence_of(recording(name))
    quarter = np.arange(len(whole)) * 4 // len(whole) == part
    assert diagnose(whole, Comparison(whole.select(quarter), None)).findings == ()


def test_two_that_are_dispatched_alike_show_each_other_nothing(diagnosed: Diagnose) -> None:
    assert diagnosed(recording("push-sequential"), recording("push-early")).findings == ()

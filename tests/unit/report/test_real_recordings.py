"""Recordings of real pairs, kept for the pictures: versions to come have to read them and say the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kvscope.core.critical_path import split
from kvscope.model.splits import Splits
from kvscope.sources import open_sources

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"


@pytest.fixture(params=["push-early", "push-sequential", "pull"])
def splits(request: pytest.FixtureRequest) -> Splits:
    return split(open_sources([PICTURES / f"{request.param}.kvs"]).events)


def test_every_request_is_complete(splits: Splits) -> None:
    assert len(splits) == 63
    assert splits.complete.all()
    assert splits.tally.lost == 0


def test_stages_add_up_to_the_time_to_first_token(splits: Splits) -> None:
    assert np.array_equal(splits.exposed.sum(axis=1), splits.ttft)


def test_hardly_anything_is_unattributed(splits: Splits) -> None:
    assert splits.stage("unattributed").sum() < splits.ttft.sum() // 1000

"""Which class a change is, and when no one class is."""

from __future__ import annotations

import numpy as np
import pytest

from kvscope.analysis.bands import Band
from kvscope.live.change import change_of
from kvscope.model.graph import STAGE_INDEX
from kvscope.model.stages import STAGES, Class

MS = 1_000_000


def band(**stages: float) -> Band:
    exposed = np.zeros(len(STAGES))
    for name, ms in stages.items():
        exposed[STAGE_INDEX[name]] = ms * MS
    return Band("p95", int(exposed.sum()), 9, 0, 0, exposed, np.zeros(len(STAGES)))


def test_differences_add_up_and_the_largest_class_is_named() -> None:
    change = change_of(band(prefill_run=100, dispatch=10, wire=20), band(prefill_run=104, dispatch=210, wire=16))
    assert change.mean_ns == sum(change.classes) == 200 * MS
    assert change.percentile_ns == 200 * MS
    assert change.explained_by == (Class.COORDINATION, 1.0)


def test_it_may_be_what_became_less() -> None:
    change = change_of(band(prefill_run=300, wire=100), band(prefill_run=120, wire=95))
    assert change.explained_by is not None
    assert change.explained_by[0] is Class.COMPUTE_RUN
    assert change.explained_by[1] == pytest.approx(180 / 185)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (band(prefill_run=100), band(prefill_run=104)),  # too small
        (band(prefill_run=100), band(prefill_run=100)),
        (band(prefill_run=100), band(prefill_run=150, dispatch=60, prefill_queue=40)),  # no one class
        (band(prefill_run=100), band(prefill_run=100, dispatch=60, poll_gap=40)),  # 60 or 100: undecided
        (band(prefill_run=100), band(prefill_run=100, unattributed=90)),
    ],
)
def test_what_no_one_class_explains_for_sure_is_not_explained(was: Band, now: Band) -> None:
    assert change_of(was, now).explained_by is None

"""Steps and handshakes are there as long as they may be needed, and no others."""

from __future__ import annotations

import numpy as np

from kvscope.core.recent import Recent
from kvscope.model.events import EVENT
from kvscope.probe.vocabulary import MOMENT_CODE


def rows(*told: tuple[str, int, int]) -> np.ndarray:
    """(moment, process, t) each."""
    found = np.zeros(len(told), EVENT)
    for row, (moment, process, t) in zip(found, told, strict=True):
        row["moment"], row["process"], row["t"] = MOMENT_CODE[moment], process, t
    return found


def added(*batches: np.ndarray) -> Recent:
    recent = Recent()
    for batch in batches:
        recent.add(batch, batch["t"])
    return recent


def test_steps_are_found_by_time_and_process_wherever_they_came() -> None:
    recent = added(rows(("step", 0, 5), ("step", 1, 9), ("load", 0, 9)), rows(("step", 0, 3), ("step", 0, 12)))
    found = recent.steps(5, np.array([True, False]))
    assert found["t"].tolist() == [5, 12]
    assert len(recent) == 4, "what is neither step nor handshake is not kept"


def test_a_batch_goes_when_the_last_of_it_is_too_old() -> None:
    recent = added(rows(("step", 0, 1), ("handshake_begun", 0, 20)), rows(("step", 0, 2), ("step", 0, 30)))
    recent.forget(20)
    assert recent.steps(0, np.array([True]))["t"].tolist() == [2, 30]
    assert recent.meetings()["t"].tolist() == [20]


def test_the_oldest_steps_go_where_they_are_too_many_and_handshakes_stay() -> None:
    meeting = rows(("handshake_ended", 0, 1))
    recent = added(meeting, *(rows(("step", 0, t), ("step", 0, t + 1)) for t in (50, 10, 30)))
    recent.let_steps_go(before=0, most=3)
    assert sorted(recent.steps(0, np.array([True]))["t"].tolist()) == [30, 31, 50, 51]
    recent.let_steps_go(before=40, most=100)
    assert recent.steps(0, np.array([True]))["t"].tolist() == [50, 51]
    assert len(recent.meetings()) == 1

"""What a real pair recorded on one host, as if decode had run on another host whose clock is ahead and drifts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kvscope.core.critical_path import split
from kvscope.model.events import Events
from kvscope.probe.vocabulary import MOMENT_CODE, UNKNOWN, VALUES
from kvscope.sources.opening import open_all

from .test_alignment import HOUR, compared

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"
PPM = 1e-6
BEGIN = VALUES["step"].index("begin")
OFFSET = VALUES["handshake_ended"].index("offset_ns")


def on_two_hosts(events: Events, ahead: int, rate: float) -> Events:
    """Decode's engine by a clock that is `ahead` at the first event, and that much faster."""
    far = np.array([process.engine == "d0" for process in events.processes])
    processes = tuple(
        replace(process, host="boot-b" if far[number] else "boot-a") for number, process in enumerate(events.processes)
    )
    rows, first = events.rows.copy(), int(events.rows["t"].min())
    mine = far[rows["process"]]
    rows["t"] = np.where(mine, moved(rows["t"], first, ahead, rate), rows["t"])
    begun = mine & (rows["moment"] == MOMENT_CODE["step"]) & (rows["values"][:, BEGIN] != UNKNOWN)
    rows["values"][begun, BEGIN] = moved(rows["values"][begun, BEGIN], first, ahead, rate)
    met = (rows["moment"] == MOMENT_CODE["handshake_ended"]) & (rows["values"][:, OFFSET] != UNKNOWN)
    drifted = ahead + np.round((events.rows["t"] - first) * rate).astype(np.int64)
    rows["values"][met, OFFSET] += np.where(mine, -drifted, drifted)[met]
    return Events(rows, processes, events.texts)


def moved(t: np.ndarray, first: int, ahead: int, rate: float) -> np.ndarray:
    return np.asarray(t + ahead + np.round((t - first) * rate).astype(np.int64))


@pytest.mark.parametrize("name", ["push-early", "push-sequential", "pull"])
@pytest.mark.parametrize(("ahead", "ppm"), [(5 * HOUR, 0), (5 * HOUR, 100), (-70 * HOUR, -100)])
def test_splits_of_a_real_pair_are_those_of_one_clock(name: str, ahead: int, ppm: int) -> None:
    events = open_all([str(PICTURES / f"{name}.kvs")], None).events
    apart = on_two_hosts(events, ahead, ppm * PPM)
    true, found = split(events), split(apart)
    aligned, inside = compared(true, found, abs(ppm) * PPM)
    assert aligned == int(true.timed.sum()) == inside
    assert found.tally.order_violations == true.tally.order_violations
    pair = next(pair for pair in found.clocks if {pair.here, pair.there} == {"boot-a", "boot-b"})
    assert pair.offset_ns is not None
    assert pair.bound_ns is not None
    length = int(events.rows["t"].max() - events.rows["t"].min())
    assert pair.bound_ns < 5_000_000
    assert abs(pair.offset_ns - ahead) <= pair.bound_ns + length * abs(ppm) * PPM
    assert pair.steps == 0

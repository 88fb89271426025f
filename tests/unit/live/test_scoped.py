"""What is kept of engines: rows of the last while, and what still holds although it was told before."""

from __future__ import annotations

from typing import Any

from kvscope.core.stream import SECOND
from kvscope.live.scoped import Scoped
from kvscope.probe.vocabulary import MOMENT_CODE, UNKNOWN, VALUES

from ..core.scene import D_LEG, MS, events_of, moment

WAITING = VALUES["load"].index("waiting")


def load(engine: str, ms: float, waiting: int) -> dict[str, Any]:
    return moment({"engine": engine}, "load", ms, waiting=waiting, running=0, held=0, free_blocks=10)


def step(engine: str, ms: float) -> dict[str, Any]:
    return moment({"engine": engine}, "step", ms, begin=round((ms - 5) * MS))


def waiting_by_engine(scoped: Scoped, begin: int) -> dict[str, list[int]]:
    found = scoped.since(begin)
    loads = found.rows[found.rows["moment"] == MOMENT_CODE["load"]]
    told: dict[str, list[int]] = {}
    for row in loads:
        told.setdefault(found.processes[row["process"]].engine, []).append(int(row["values"][WAITING]))
    return told


def test_an_unchanged_load_holds_however_long_ago_it_was_told() -> None:
    scoped = Scoped(keep_ns=2 * SECOND)
    scoped.add(events_of([load("d0", 1, 4), load("d0", 2, 3), load("p0", 3, 7)]), 4 * MS)
    for second in range(1, 20):
        scoped.add(events_of([step("p0", second * 1000), load("p0", second * 1000, second)]), second * SECOND)
    assert waiting_by_engine(scoped, 18 * SECOND) == {"d0": [3], "p0": [18, 19]}
    rows = scoped.since(18 * SECOND).rows
    assert (rows["t"][rows["moment"] == MOMENT_CODE["step"]] >= 18 * SECOND).all()


def test_every_event_of_a_process_is_heard_and_the_future_is_not() -> None:
    scoped = Scoped(keep_ns=SECOND)
    scoped.add(events_of([step("p0", 10), moment(D_LEG, "taken", 30), load("d0", 20, 0)]), SECOND)
    scoped.add(events_of([moment(D_LEG, "queued", 5_000)]), 2 * SECOND)
    assert dict(zip((p.engine for p in scoped.processes), scoped.heard, strict=True)) == {
        "p0": 10 * MS,
        "d0": 2 * SECOND,
    }


def test_a_process_that_was_only_listed_was_not_heard() -> None:
    scoped = Scoped(keep_ns=SECOND)
    events = events_of([step("p0", 10)])
    scoped.add(type(events)(events.rows[:0], events.processes, {}), SECOND)
    assert scoped.heard == (UNKNOWN,)

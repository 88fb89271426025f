"""What a request waits for is what usually comes next; the side that waits longest, against what is usual, is named."""

from __future__ import annotations

import pytest

from kvscope.live.enginedata import Data
from kvscope.live.habits import Habits
from kvscope.live.snapshot import Snapshot
from kvscope.live.stuck import MANY, MOST, Stuck, Wait, gather_stuck
from kvscope.model.events import Process
from kvscope.model.graph import NODE, NODES
from kvscope.probe.vocabulary import THREADS

from ..core.scene import D_LEG, MS, moment
from .fleet import request, stretch
from .picture import Items, load, picture, started, steps


def flat(parts: list[Items]) -> Items:
    return [item for part in parts for item in part]


def cut(scene: str, number: int, at_ms: float, until_ms: float, decode: str = "d0") -> Items:
    """A request that got as far as it was `until_ms` after it began, and no further."""
    items = request(scene, number, at_ms, decode=decode)
    return [item for item in items if item["t"] <= round((at_ms + until_ms) * MS)]


def usual(scene: str) -> Items:
    return flat(stretch(scene, 0, 3))


def stuck(items: Items, now_s: float, dark: tuple[Process, ...] = ()) -> Stuck:
    return gather_stuck(picture(items, now_s, dark=dark))


def said(wait: Wait) -> tuple[str, str, str, int]:
    """(last moment, what is waited for, where, ms)"""
    habit = wait.next.habit
    return NODES[habit.frm].name, NODES[habit.to].name, wait.engine, round(wait.longest_ns / MS)


@pytest.mark.parametrize(
    ("scene", "until_ms", "expected"),
    [
        # (what was seen last, what is waited for, where, its usual length, what comes then)
        ("early", 3, ("P.queued", "P.scheduled", "p0", 3, "P.computed")),
        ("early", 60, ("P.scheduled", "P.computed", "p0", 100, "P.handed")),
        ("early", 106, ("P.computed", "P.handed", "p0", 2, "staged")),
        ("early", 107, ("P.handed", "staged", "p0", 1, "matched")),
        ("early", 109, ("prepared", "posted", "p0", 1, "transferred")),
        ("early", 110, ("posted", "transferred", "p0", 10, "notified")),
        ("early", 120, ("transferred", "notified", "d0", 1, "noticed")),
        ("early", 123, ("ready", "D.scheduled", "d0", 3, "first_token")),
        ("early", 126, ("D.scheduled", "first_token", "d0", 10, "")),
        ("sequential", 108, ("P.computed", "D.arrived", "", 5, "D.taken")),
        ("sequential", 112, ("D.queued", "D.reserved", "d0", 1, "D.handed")),
        ("sequential", 116, ("registration_sent", "registration_received", "p0", 3, "matched")),
        ("pull", 105, ("P.computed", "D.arrived", "", 5, "D.taken")),
        ("pull", 113, ("D.reserved", "post_begun", "d0", 3, "prepared")),
        ("pull", 118, ("posted", "transferred", "d0", 7, "noticed")),
    ],
)
def test_what_is_waited_for(scene: str, until_ms: float, expected: tuple[str, str, str, int, str]) -> None:
    found = stuck([*usual(scene), *cut(scene, 900, 3_000, until_ms)], 8)
    frm, to, engine, ms, then = expected
    (wait,) = found.overdue
    assert said(wait)[:3] == (frm, to, engine)
    assert wait.next.habit.usual_ns == ms * MS
    assert wait.longest_ns == 8_000 * MS - wait.since
    assert wait.ratio == pytest.approx(wait.longest_ns / (ms * MS))
    assert (NODES[wait.next.then].name if wait.next.then >= 0 else "") == then
    assert (wait.count, wait.request[:10]) == (1, "cmpl-r0900")
    assert (found.late, found.under_way, found.unseen, found.judged_by) == (1, 1, 0, 30)


def test_of_two_sides_the_one_that_waits_unusually_long_is_named() -> None:
    """Prefill computes as long as usual; decode was not admitted for as long, which usually takes a millisecond."""
    items = [
        item
        for item in cut("early", 900, 3_000, 60)
        if item["moment"] not in ("reserved", "handed", "registration_sent")
    ]
    (wait,) = stuck([*usual("early"), *items], 3.08).overdue
    assert said(wait) == ("D.queued", "D.reserved", "d0", 77)
    admitted = [*usual("early"), *cut("early", 900, 3_000, 60)]
    in_time = stuck(admitted, 3.08)
    assert (in_time.late, [said(wait)[:3] for wait in in_time.in_time]) == (0, [("P.scheduled", "P.computed", "p0")])
    (computed,) = stuck(admitted, 30).overdue
    assert said(computed)[:3] == ("P.scheduled", "P.computed", "p0")


def test_a_registration_that_is_there_waits_for_prefill() -> None:
    """What prefill has not finished is not decode's fault."""
    items = cut("early", 900, 3_000, 104)
    assert any(item["moment"] == "registration_received" for item in items)
    (wait,) = stuck([*usual("early"), *items], 8).overdue
    assert said(wait)[:3] == ("P.scheduled", "P.computed", "p0")


def test_many_alike_are_one_line_and_few_are_not() -> None:
    alike = flat([cut("sequential", 900 + n, 3_000 + 10 * n, 116) for n in range(MANY)])
    found = stuck([*usual("sequential"), *alike], 8)
    (line,) = found.overdue
    assert (line.count, line.request, found.late) == (MANY, "cmpl-r0900-0-bbbbbbbb", MANY)
    assert (line.longest_ns - line.shortest_ns) == 10 * (MANY - 1) * MS
    few = stuck([*usual("sequential"), *alike[: len(alike) * (MANY - 1) // MANY]], 8)
    assert [wait.count for wait in few.overdue] == [1] * (MANY - 1)
    apart = flat([cut("sequential", 900 + n, 3_000, 113, decode=f"d{n % 2}") for n in range(2 * MANY)])
    assert sorted(wait.engine for wait in stuck([*usual("sequential"), *apart], 8).overdue) == ["d0", "d1"]


def test_the_most_overdue_comes_first_and_lines_are_bounded() -> None:
    parts = [cut("sequential", 900 + n, 3_000 + n, 113, decode=f"d{n}") for n in range(MOST + 7)]
    found = stuck([*usual("sequential"), *flat(parts)], 8)
    overdue = [wait.overdue for wait in found.overdue]
    assert overdue == sorted(overdue, reverse=True)
    assert (len(overdue), found.late) == (MOST, MOST + 7)
    assert found.overdue[0].request == "cmpl-r0900-0-bbbbbbbb"


def test_where_nothing_got_on_the_graph_says_what_comes_and_nothing_how_long_it_takes() -> None:
    found = stuck(flat([cut("early", n, n, 110) for n in range(9)]), 8)
    (wait,) = found.overdue
    assert said(wait)[:3] == ("posted", "transferred", "p0")
    assert (wait.ratio, wait.next.habit.usual_ns, wait.next.habit.samples, found.judged_by) == (None, None, 0, 0)


def test_where_nothing_got_on_what_engines_told_decides_between_push_and_pull() -> None:
    hung = flat([cut("pull", n, n, 105) for n in range(9)])
    for mode, expected in (("pull", "D.arrived"), ("push", "P.handed")):
        (wait,) = stuck([*hung, started("p0", mode=mode)], 8).overdue
        assert said(wait)[1] == expected


def test_those_that_were_given_up_do_not_show_what_is_usual() -> None:
    """All that went before were aborted where this one stands: what it waits for is what should have come."""
    ids = [f"cmpl-r{number:04d}-0-bbbbbbbb" for number in range(20)]
    parts = [cut("sequential", number, 100 * number, 116) for number in range(20)]
    aborted = [moment({**D_LEG, "request": one}, "finished", 2_500, reason="abort") for one in ids]
    found = stuck([*flat(parts), *aborted, *cut("sequential", 900, 3_000, 116)], 12)
    assert ("registration_sent", "registration_received", "p0") in [said(wait)[:3] for wait in found.overdue]


def test_what_happens_where_nothing_is_recorded_is_not_guessed() -> None:
    """Prefill alone is instrumented: nothing here will ever tell of the decode leg."""
    seen = [item for item in flat(stretch("pull", 0, 3)) if item["engine"] == "p0"]
    open_ = [item for item in cut("pull", 900, 3_000, 105) if item["engine"] == "p0"]
    found = stuck([*seen, *open_], 8)
    assert (found.overdue, found.in_time, found.unseen, found.under_way) == ((), (), 1, 1)


def test_refused_admission_is_told() -> None:
    items = [
        *cut("sequential", 900, 3_000, 112),
        moment({**D_LEG, "request": "cmpl-r0900-0-bbbbbbbb"}, "held", 3_113, reason="blocks"),
    ]
    (wait,) = stuck([*usual("sequential"), *items], 8).overdue
    assert (said(wait)[1], wait.held) == ("D.reserved", 1)


def test_an_engine_that_is_gone_is_told_with_what_waits_for_it() -> None:
    items = [*usual("sequential"), *cut("sequential", 900, 3_000, 116), load("p0", 3_100, 1, 1, 0, 5)]
    (wait,) = stuck([*items, *steps("d0", [1_000.0] * 12)], 12).overdue
    assert (wait.engine, wait.data) == ("p0", Data.GONE)


def test_a_request_in_time_is_not_overdue_however_short_things_usually_take() -> None:
    found = stuck([*usual("sequential"), *cut("sequential", 900, 3_000, 112)], 3.13)
    assert (found.late, [said(wait) for wait in found.in_time]) == (0, [("D.queued", "D.reserved", "d0", 18)])


def test_without_requests_nothing_waits() -> None:
    for items in ([], steps("d0", [5])):
        assert stuck(items, 1).under_way == 0


def habits(items: Items) -> Habits:
    snapshot: Snapshot = picture(items, 5)
    return Habits(snapshot.window)


def test_habits_are_of_those_that_got_on() -> None:
    slow = flat([cut("early", 900 + n, 3_000, 106) for n in range(90)])
    learnt = habits([*usual("early"), *slow])
    assert len(learnt) == 30
    habit = learnt.after(NODE["P.handed"], range(len(NODES)))
    assert habit is not None
    assert (habit.to, habit.usual_ns, habit.samples) == (NODE["staged"], 1 * MS, 30)


@pytest.mark.parametrize(
    ("scene", "knew", "mode"), [("early", False, "push"), ("sequential", True, "push"), ("pull", True, "pull")]
)
def test_how_decode_is_called_is_learnt(scene: str, knew: bool, mode: str) -> None:
    assert (habits(usual(scene)).knew, habits(usual(scene)).mode) == (knew, mode)
    assert (habits([]).knew, habits([]).mode) == (None, "")


def test_the_thread_is_the_one_that_usually_stamps_the_moment() -> None:
    items = [
        {**item, "thread": "writer"} if item["moment"] in ("staged", "done_seen") else item for item in usual("early")
    ]
    learnt = habits(items)
    for frm, to in (("P.handed", "staged"), ("posted", "transferred")):
        habit = learnt.after(NODE[frm], range(len(NODES)))
        assert habit is not None
        assert (NODES[habit.to].name, THREADS[habit.thread]) == (to, "writer")

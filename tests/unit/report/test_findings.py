"""What is concluded from the numbers, and what is left undecided."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kvscope.analysis.bands import Band
from kvscope.analysis.headline import leader_of
from kvscope.analysis.overlap import gather_overlap
from kvscope.analysis.price import gather_price
from kvscope.analysis.render import words
from kvscope.analysis.render.amounts import Milliseconds, duration, quantity, share
from kvscope.analysis.summary import gather_summary, latest
from kvscope.core.critical_path import split
from kvscope.model.events import Events
from kvscope.model.graph import STAGE_INDEX
from kvscope.model.splits import Splits
from kvscope.model.stages import STAGES, Class

from .scenes import EARLY, LATE, MS, Item, events_of, request, started


def band(**stages: float) -> Band:
    exposed = np.zeros(len(STAGES))
    for name, ms in stages.items():
        exposed[STAGE_INDEX[name]] = ms * MS
    return Band("p95", int(exposed.sum()), 9, 0, 0, exposed, np.zeros(len(STAGES)))


def test_a_class_leads_only_if_it_does_at_both_bounds() -> None:
    assert leader_of(band(prefill_run=50, dispatch=60, wire=10, poll_gap=5)).classes == (Class.COORDINATION,)
    undecided = leader_of(band(prefill_run=10, dispatch=60, wire=50, poll_gap=15))
    assert set(undecided.classes) == {Class.COORDINATION, Class.TRANSFER}
    assert not undecided.decided


def test_time_that_no_stage_explains_may_belong_to_any_class() -> None:
    found = leader_of(band(prefill_run=50, dispatch=45, unattributed=10))
    assert set(found.classes) == {Class.COMPUTE_RUN, Class.COORDINATION}


def test_an_undecided_headline_names_the_rivals() -> None:
    text = words.leader(leader_of(band(dispatch=60, wire=50, poll_gap=15)), Milliseconds(125 * MS))
    begin = "UNDECIDED what leads the 125.0 ms (mean around p95): coordination (60.0..75.0) or transfer (50.0..65"
    assert text.startswith(begin)


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        (
            {"dispatch": 61, "staging": 30, "notice": 30},
            "121.0 of 121.0 ms (mean around p95), most of it in dispatch 61.0",
        ),
        ({"dispatch": 60, "staging": 30, "notice": 30}, "p95), the largest part of it in dispatch 60.0."),
        ({"dispatch": 65, "staging": 60, "poll_gap": 5}, "p95), the largest part of it in dispatch 65.0."),
        ({"submit": 40, "poll_gap": 41, "wire": 0}, "p95), most of it in poll_gap 41.0."),
        ({"submit": 40, "poll_gap": 41, "unattributed": 30}, "p95), the largest part of it in poll_gap 41.0."),
    ],
)
def test_most_is_more_than_all_the_rest(stages: dict[str, float], said: str) -> None:
    assert said in words.leader(leader_of(band(**stages)), Milliseconds(125 * MS))


def test_the_headline_says_that_its_time_is_a_mean_and_the_table_has_the_percentile_itself() -> None:
    found = leader_of(replace(band(dispatch=60, wire=5), percentile_ns=70 * MS))
    assert "of 65.0 ms (mean around p95)" in words.leader(found, Milliseconds(125 * MS))


def test_an_undecided_headline_names_what_nobody_can_tell() -> None:
    def said(**stages: float) -> str:
        return words.leader(leader_of(band(**stages)), Milliseconds(125 * MS))

    shared = "nobody can tell whether bytes still moved (transfer) or not (coordination)"
    assert f"In poll_gap (15.0) {shared}." in said(dispatch=60, wire=50, poll_gap=15)
    assert f"In submit (2.0) and poll_gap (15.0) {shared}." in said(prefill_run=50, dispatch=40, submit=2, poll_gap=15)
    loose = said(prefill_run=50, dispatch=45, unattributed=10)
    assert shared not in loose
    assert "No stage explains 10.0 ms: they may belong to any class." in loose
    assert said(poll_gap=15).startswith(
        "UNDETERMINED time leads TTFT: 15.0 of 15.0 ms (mean around p95), most of it in"
    )
    assert shared in said(poll_gap=15)
    assert "nobody" not in said(prefill_run=50, poll_gap=15)


def test_coordination_with_prefill_behind_it_says_what_can_be_won() -> None:
    late = band(registration_flight=300, decode_run=20)
    late.hidden[STAGE_INDEX["prefill_run"]] = 200 * MS
    found = leader_of(replace(late, late_ns=90 * MS))
    assert "an earlier registration wins at most 90.0 ms" in words.behind(found, Milliseconds(320 * MS))
    assert words.behind(leader_of(band(dispatch=300)), Milliseconds(320 * MS)) == ""


def test_overlap_is_told_from_its_absence(early: tuple[Events, Splits], late: tuple[Events, Splits]) -> None:
    good, bad = gather_overlap(early[1]), gather_overlap(late[1])
    assert (good.pushes, good.overlapped, good.late) == (120, 120, 0)
    assert (bad.pushes, bad.overlapped, bad.told) == (120, 0, 120)
    assert words.mechanism(good) == ""
    assert "router calls decode after prefill" in words.mechanism(bad)


def test_a_late_registration_of_an_early_call_is_not_blamed_on_the_router() -> None:
    slow = {"prefill": dict(LATE["prefill"]), "decode": dict(LATE["decode"])}
    slow["decode"].update(arrived=2, taken=3, queued=4)
    items: list[Item] = [item for item in request(LATE) if item["leg"] == "prefill"]
    items += [
        {**item, "t": slow["decode"][item["moment"]] * MS, "remote_request": None}
        for item in request(LATE)
        if item["leg"] == "decode"
    ]
    found = gather_overlap(split(events_of(started() + items)))
    assert (found.pushes, found.overlapped, found.told) == (1, 0, 0)
    assert found.late_stage == "decode_admission"
    assert "most of it in decode_admission" in words.mechanism(found)
    assert "the largest part of it in decode_admission" in words.mechanism(replace(found, late_share=0.5))


def load(engine: str, ms: int, waiting: int) -> Item:
    return {"t": ms * MS, "engine": engine, "moment": "load", "waiting": waiting, "running": 1, "held": 0}


def test_regret_needs_a_second_decoder_and_counts_who_waits() -> None:
    events = events_of([*started(), *request(EARLY), load("d0", 1, 5)])
    assert gather_price(events, split(events)).regret.judged == 0
    other = [{**item, "engine": "d1"} if item["leg"] == "decode" else item for item in request(EARLY, 1, begin=300)]
    for item in other:
        item.update({"peer_engine": "d1"} if item["moment"] == "matched" else {})
    events = events_of([*started(), *request(EARLY), *other, load("d0", 1, 5), load("d1", 1, 2), load("d1", 200, 9)])
    found = gather_price(events, split(events)).regret
    assert (found.decoders, found.judged, found.regretted) == (2, 2, 2)
    assert found.waiting_p50 == 3  # five waited where two did; nine where five did


def test_only_the_last_seconds_are_looked_at(early: tuple[Events, Splits]) -> None:
    events, splits = early
    recent = latest(splits, 2_000 * MS)
    assert 0 < len(recent) < len(splits)
    assert gather_summary(events, recent).condition.requests == len(recent)
    assert int(recent.first_token.min()) >= splits.now - 2_000 * MS


def test_likely_transfer_stays_within_its_bounds(early: tuple[Events, Splits]) -> None:
    events, splits = early
    slow = splits.exposed.copy()
    slow[1:, STAGE_INDEX["poll_gap"]] += 40 * MS
    found = gather_summary(events, replace(splits, exposed=slow)).transfers
    assert found is not None
    assert found.bounds_p50_ns == (8 * MS, 51 * MS)
    assert found.inferred_p50_ns == pytest.approx(11 * MS)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (share(0, 10), "0%"),
        (share(10, 10), "100%"),
        (share(1, 100_000), "<0.1%"),
        (share(99_999, 100_000), ">99.9%"),
        (share(1, 0), "-"),
        (duration(1_300_000), "1.30 ms"),
        (duration(95e9), "1 min 35 s"),
        (quantity(1_610_612_736, "B"), "1.61 GB"),
    ],
)
def test_numbers_read_well(shown: str, expected: str) -> None:
    assert shown == expected

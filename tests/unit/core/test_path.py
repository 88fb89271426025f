"""What the walk makes of the less usual: ranks, handshakes, chunks, preemption, failures, clocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvscope.core.critical_path import split
from kvscope.model.events import Events
from kvscope.model.requests import RequestSplit, State
from kvscope.model.splits import concat
from kvscope.probe.vocabulary import UNKNOWN

from .scene import D_ID, D_LEG, MS, P_ID, P_LEG, events_of, moment, moments, pull, push_early, push_sequential

Items = list[dict[str, Any]]
P_ENGINE = {"engine": "p0", "leg": "engine"}
D_ENGINE = {"engine": "d0", "leg": "engine"}


def only(items: Items) -> RequestSplit:
    splits = split(events_of(items))
    assert len(splits) == 1
    return splits[0]


def without(items: Items, *names: str) -> Items:
    return [item for item in items if item["moment"] not in names]


def test_a_parked_writer_reads_an_early_registration_late() -> None:
    """Sent before the blocks were staged, read after: the path leads through `staged`, the rest is `match`."""
    items = [i for i in push_early() if i["moment"] not in ("registration_received", "matched")]
    items = [{**i, "t": i["t"] + 20 * MS} if i["t"] >= 108 * MS and i["moment"] != "staged" else i for i in items]
    items += [
        moment({**P_LEG, "request": D_ID}, "registration_received", 127, looked=3 * MS),
        moment(P_LEG, "matched", 128, peer_request=D_ID),
    ]
    request = only(items)
    assert request.exposed["match"] == 20 * MS
    assert "registration_flight" not in request.exposed
    assert request.slack_ns == {"registration": (0, 103 * MS)}


def test_a_registration_under_way_for_long_is_waited_for_though_it_was_sent_early() -> None:
    """The writer looked after the blocks were staged and did not find it: the path leads through it."""
    items = without(push_early(), "registration_received", "matched")
    items = [{**i, "t": i["t"] + 20 * MS} if i["t"] >= 108 * MS and i["moment"] != "staged" else i for i in items]
    items += [
        moment({**P_LEG, "request": D_ID}, "registration_received", 127, looked=126 * MS),
        moment(P_LEG, "matched", 128, peer_request=D_ID),
    ]
    request = only(items)
    assert (request.exposed["registration_flight"], request.exposed["match"]) == (122 * MS, 1 * MS)
    assert request.slack_ns == {"staging": (19 * MS, 19 * MS)}
    assert request.hidden["prefill_run"] == 100 * MS


def test_a_process_read_twice_is_read_once() -> None:
    """Two files that overlap, each with its own table of processes."""
    events = events_of(push_early())
    rows = np.concatenate((events.rows, events.rows))
    rows["process"][len(events) :] += len(events.processes)
    splits = split(Events(rows, (*events.processes, *events.processes), events.texts))
    assert [request.ttft_ns for request in splits] == [136 * MS]
    assert splits.tally.duplicates == len(events)


def test_a_transfer_done_when_its_post_returned_has_neither_wire_nor_gap() -> None:
    items = [{**i, "state": "DONE"} if i["moment"] == "posted" else i for i in without(pull(), "pending_seen")]
    request = only(without(items, "done_seen"))
    assert request.complete
    assert request.transfer_bounds_ns == (0, 1 * MS)
    assert request.exposed["pickup"] == 8 * MS


def test_a_notice_before_the_prefill_engine_polled_is_the_first_evidence() -> None:
    items = [{**i, "t": 300 * MS} if i["moment"] == "done_seen" else i for i in push_early()]
    items = [{**i, "t": 290 * MS} if i["moment"] == "pending_seen" else i for i in items]
    request = only(items)
    assert request.complete
    assert "notice" not in request.exposed
    assert request.exposed["poll_gap"] == 11 * MS
    assert request.reserved_idle_ns == 117 * MS


def test_the_slowest_rank_is_waited_for_and_the_spread_told() -> None:
    """Two ranks on each side: rank 1's transfer is the later by 4."""
    base = without(push_early(), "handed", "registration_sent", "registration_received", "matched", "post_begun")
    base = without(base, "prepared", "posted", "pending_seen", "done_seen", "notified", "noticed", "staged")
    base += [moment(P_LEG, "released", 140)]
    for rank, late in ((0, 0), (1, 4)):
        p, d = {**P_LEG, "rank": rank}, {**D_LEG, "rank": rank}
        base += moments(p, handed=107, staged=108 + late / 4)
        base += moments(d, handed=5, registration_sent=5, notified=117 + late, noticed=118 + late)
        base += [
            moment({**p, "request": D_ID}, "registration_received", 104, looked=3 * MS),
            moment(p, "matched", 108 + late / 4, peer_request=D_ID),
            moment({**p, "peer_rank": rank}, "posted", 110 + late, state="PROC"),
        ]
        base += moments({**p, "peer_rank": rank}, prepared=109 + late, pending_seen=111 + late, done_seen=116 + late)
    request = only(base)
    assert request.complete
    assert (request.ranks, request.rank_spread_ns, request.slowest_rank) == (2, 4 * MS, (1, 1))
    assert (request.exposed["writer_wake"], request.exposed["prepare"]) == (2 * MS, 4 * MS)
    assert request.exposed["report"] == 1 * MS


@pytest.mark.parametrize("peer", ["d0", "d9"])
def test_a_handshake_is_cut_out_of_what_it_held_up(peer: str) -> None:
    """Only with this peer, and only where it lies inside."""
    items = [{**i, "t": i["t"] + 30 * MS} if i["t"] > 108 * MS else i for i in push_early()]
    items += [
        moment(P_ENGINE, "handshake_begun", 100, peer_engine=peer),
        moment(P_ENGINE, "handshake_ended", 133, peer_engine=peer),
    ]
    request = only(items)
    if peer == "d0":
        assert (request.exposed["handshake"], request.exposed["prepare"]) == (25 * MS, 6 * MS)
        assert [span.stage for span in request.path][6:9] == ["handshake", "prepare", "submit"]
    else:
        assert (request.exposed.get("handshake"), request.exposed["prepare"]) == (None, 31 * MS)
    assert sum(request.exposed.values()) == request.ttft_ns


def test_a_hidden_handshake_is_hidden() -> None:
    items = [{**i, "t": 60 * MS} if i["moment"] == "registration_sent" else i for i in push_early()]
    items += [
        moment(D_ENGINE, "handshake_begun", 10, peer_engine="p0"),
        moment(D_ENGINE, "handshake_ended", 40, peer_engine="p0"),
    ]
    request = only(items)
    assert request.hidden["handshake"] == 30 * MS
    assert request.hidden["registration_send"] == 25 * MS


def test_steps_between_chunks_that_ran_without_it_are_a_gap() -> None:
    items = [{**i, "step": 10} if i["moment"] == "scheduled" and i["leg"] == "prefill" else i for i in push_early()]
    items += [moment(P_LEG, "chunk", 65, step=13)]
    for step, begin, end in ((10, 5, 24), (11, 25, 44), (12, 45, 64), (13, 65, 105)):
        items += [moment(P_ENGINE, "step", end, step=step, begin=begin * MS, requests=1, tokens=64)]
    request = only(items)
    assert request.exposed["prefill_gap"] == 38 * MS
    assert request.exposed["prefill_run"] == 62 * MS
    stages = [span.stage for span in request.path][3:8]
    assert stages == ["prefill_run", "prefill_gap", "prefill_run", "prefill_gap", "prefill_run"]


def test_preemption_is_no_run() -> None:
    items = [*push_early(), *moments(P_LEG, preempted=40, resumed=70)]
    request = only(items)
    assert (request.exposed["preempted"], request.exposed["prefill_run"]) == (30 * MS, 70 * MS)
    assert "preempted" in request.marks


def test_a_failed_load_that_was_recomputed() -> None:
    items = without(pull(), "pending_seen", "done_seen", "noticed")
    request = only([*items, moment(D_LEG, "failed", 121, reason="transfer_failed")])
    assert (request.shape, request.state) == ("failed_recomputed", State.COMPLETE)
    assert request.exposed["failed_attempt"] == 3 * MS
    assert request.exposed["report"] == 6 * MS
    assert request.failure == "decode transfer_failed"
    assert "recompute" in request.marks
    assert sum(request.exposed.values()) == request.ttft_ns == 140 * MS


def test_a_failure_that_ended_it() -> None:
    items = without(pull(), "pending_seen", "done_seen", "noticed", "ready", "scheduled", "first_token", "finished")
    items += [moment(P_LEG, "scheduled", 5), moment(D_LEG, "failed", 121, reason="odd words of an engine")]
    request = only([*items, moment(D_LEG, "finished", 125, reason="error")])
    assert (request.shape, request.state, request.ttft_ns) == ("failed", State.COMPLETE, None)
    assert request.failure == "decode odd words of an engine"


def test_a_failure_after_which_all_went_well_is_told_and_changes_nothing() -> None:
    request = only([*push_early(), moment(D_LEG, "failed", 50, reason="registration_expired")])
    assert (request.shape, request.ttft_ns) == ("push", 136 * MS)
    assert request.failure == "decode registration_expired"


def test_a_clock_step_is_marked_and_kept_out_of_the_sum() -> None:
    items = [{**i, "t": 50 * MS, "clock_step": True} if i == push_early()[0] else i for i in push_early()]
    request = only(items)
    assert "clock_step" in request.marks
    assert request.ttft_ns == 135 * MS
    assert "frontend" not in request.exposed


def test_a_violation_of_order_is_counted_and_the_sum_still_holds() -> None:
    items = [{**i, "t": 104 * MS} if i["moment"] == "handed" and i["leg"] == "prefill" else i for i in push_early()]
    splits = split(events_of(items))
    assert splits.tally.order_violations == 1
    assert "order_violation" in splits[0].marks
    assert splits.exposed[0].sum() == splits.ttft[0] == 136 * MS


def test_only_what_was_scheduled_after_it_was_ready_is_the_start() -> None:
    request = only([*push_early(), moment(D_LEG, "scheduled", 60), moment(D_LEG, "scheduled", 131)])
    assert request.exposed["decode_queue"] == 3 * MS


def test_parts_joined_are_what_they_were() -> None:
    one, other = split(events_of(push_early())), split(events_of(pull()))
    whole = concat([one, other])
    assert [request.ttft_ns for request in whole] == [136 * MS, 140 * MS]
    assert whole.tally.events == one.tally.events + other.tally.events
    assert [request.path for request in whole] == [one[0].path, other[0].path]


def test_a_request_is_found_by_a_part_of_its_id() -> None:
    splits = split(events_of(push_sequential()))
    assert splits.find("x-0") == splits.find(P_ID) == [0]
    assert splits.find("nothing") == []


def test_a_prefill_that_ended_in_an_error_failed_and_waits_for_nobody() -> None:
    base = {"engine": "p0", "leg": "prefill", "request": "cmpl-a-0-0"}
    times = {"arrived": 0, "taken": 1, "queued": 2, "reserved": 3, "post_begun": 4, "released": 7}
    failed = [moment(base, "failed", 5, reason="read_expired"), moment(base, "finished", 6, reason="error")]
    request = split(events_of([*moments(base, **times), *failed]))[0]
    assert (request.shape, request.state.value, request.failure) == ("failed", "complete", "prefill read_expired")
    answered = [moment(base, "finished", 6, reason="length")]
    request = split(events_of([*moments(base, **times), *answered]))[0]
    assert (request.shape, request.state.value) == ("prefill_only", "unmatched")


def test_a_request_cut_down_to_a_chunk_still_has_an_age() -> None:
    (chunked,) = split(events_of([moment(P_LEG, "chunk", at, tokens=512) for at in (40, 20)]), 100 * MS)
    assert (chunked.state, chunked.last_moment, chunked.age_ns) == (State.UNFINISHED, "prefill chunk", 60 * MS)


def test_a_path_that_cannot_add_up_enters_no_percentile() -> None:
    """Moments out of order, as from a clock that is off: never a TTFT that is not so."""
    events = [item for item in push_early() if not (item["leg"] == "decode" and item["moment"] == "first_token")]
    backwards = moment(D_LEG, "first_token", -50)
    splits = split(events_of([*events, backwards]))
    assert [(request.state, request.ttft_ns) for request in splits] == [(State.INCOMPLETE, None)]
    assert "order_violation" in splits[0].marks
    assert splits.tally.order_violations > 0


def test_a_span_that_ends_before_it_begins_is_not_known() -> None:
    """From clocks that are apart: nothing, rather than a negative time."""
    ended = moment(D_LEG, "finished", 130, tokens=5)
    router = {"engine": "router", "leg": "router", "request": P_ID.removeprefix("cmpl-").rsplit("-", 2)[0]}
    stamps = {"received": 0, "prefill_sent": 0, "prefill_returned": 115, "decode_sent": 109}
    splits = split(events_of([*push_sequential(), ended, *moments(router, **stamps)]))
    assert len(splits) == 1
    assert np.isnan(splits.tpot[0])
    parts = splits.dispatch_parts[0]
    assert parts[0] >= 0
    assert parts[1] == UNKNOWN


def test_moments_that_were_not_recorded_are_no_disorder() -> None:
    """As after a recorder was killed: the first arrivals are missing, and the earliest one known lies late."""
    there = [item for item in push_sequential() if item["leg"] == "decode" or item["t"] >= 105 * MS]
    splits = split(events_of(there))
    assert splits[0].state == State.INCOMPLETE
    assert splits.tally.order_violations == 0
    assert "order_violation" not in splits[0].marks

"""Traces of requests that nothing went well with, of clocks that do not compare, and of times that coincide."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvscope.core.critical_path import split
from kvscope.model.events import Events, Process

from ...core.scene import D_ID, MS, events_of, moment, pull, push_early, push_sequential
from ...core.simulator import Cause, fleets, items
from ...core.unusual import Items, failed_and_aborted, on_hosts, pulled, worlds
from .reading import Event, Told, of_items, parts_of, read, trace_of

STEP = {"engine": "p0", "moment": "step", "thread": "core"}
SPANNED = ("prepare", "submit", "handshake")


def steps(*edges: float, **more: Any) -> Items:
    """Steps one after the other, each beginning when the one before ends."""
    pairs = pairwise(edges)
    return [{**STEP, **more, "t": round(end * MS), "begin": round(begin * MS)} for begin, end in pairs]


def straight(told: Told) -> None:
    """Nothing is drawn inside of what it does not lie in."""
    for each in told.events:
        if each.category in ("request", "leg", "path", "hidden", "drain", "step", "idle", "recording"):
            assert each.depth == 0, each
        if each.category == "phase":
            assert each.depth == 1, each


def names(events: list[Event]) -> list[tuple[str, float]]:
    return [(each.name, each.ns / MS) for each in events]


def drawn(told: Told) -> Counter[str]:
    """Moments, however they are drawn."""
    found = Counter(each.name for each in told.of("moment"))
    for each in told.of("connector"):
        begins = {"prepare": "post_begun", "submit": "prepared", "handshake": "handshake_ended"}[each.name]
        found[begins] += 1
        found["posted"] += each.name == "submit"
    return found


@pytest.mark.parametrize("scene", [push_early, push_sequential, pull])
def test_times_that_coincide(scene: Any) -> None:
    """Whole ms: one stage ends when the next begins, steps follow without a gap, and moments fall on their edges."""
    told = of_items([*scene(), *steps(2, 5, 105, 106, 107, 108), *steps(100, 104, 108, 120, 136, engine="d0")])
    straight(told)
    (request,) = split(events_of(scene()))
    assert names(told.of("path")) == [(span.stage, span.ns / MS) for span in request.path]
    ran = {engine: [each.ns / MS for each in told.of("step") if engine in each.track] for engine in ("p0", "d0")}
    assert ran == {"p0": [3, 100, 1, 1, 1], "d0": [4, 4, 12, 16]}
    assert drawn(told)["first_token"] == 1


def test_steps_that_overlap_are_drawn_in_rows_of_one_thread() -> None:
    told = of_items([*pull(), *steps(0, 10), *steps(6, 16), *steps(16, 20)])
    found = told.of("step")
    assert [(each.begin / MS, each.ns / MS) for each in found] == [(0, 10), (6, 10), (16, 4)]
    assert len({each.uuid for each in found}) == 2
    assert len({each.track for each in found}) == 1
    straight(told)


def test_clocks_that_nothing_aligned() -> None:
    told = of_items(on_hosts(push_early(), ahead=10**15))
    straight(told)
    (request,) = told.of("request")
    assert (request.name, request.args["state"], request.args.get("ttft_ns")) == ("x unaligned", "unaligned", None)
    assert not told.of("path")
    assert not told.of("hidden")
    assert not any(each.flows for each in told.events), "an arrow would say how long something took between hosts"
    (whole,) = told.of("recording")
    assert "not aligned" in whole.name
    assert "not aligned" in whole.args["alignment"]
    assert "not aligned" in str(told.metadata["kvscope.alignment"])
    processes = {track.name for track in told.tracks.values() if "process" in track.name}
    assert processes == {"process, host boot-a", "process, host boot-b, a clock of its own"}
    assert {each.name: each.args["request"] for each in told.of("leg")} == {"x": D_ID}


def test_hosts_that_told_the_time_of_day_lie_side_by_side() -> None:
    events = events_of(on_hosts(push_early(), ahead=10**15))
    walls = {"boot-a": 10**18, "boot-b": 10**18 - 10**15}
    told = [replace(process, wall_ns=walls[process.host]) for process in events.processes]
    found = read(trace_of(parts_of(Events(events.rows, tuple(told), events.texts))))
    assert {each.begin / MS for each in found.of("moment", "first_token")} == {136}
    assert found.clocks[1] - found.clocks[3] == 10**18


def test_a_failure_stands_where_it_is_seen_at_once() -> None:
    told = of_items(failed_and_aborted("x", 0))
    (failure,) = told.of("failure")
    assert (failure.track, failure.name, failure.args["reason"]) == ("1 requests", "p0: read_expired", "read_expired")
    (request,) = told.of("request")
    assert request.name == "x failed"
    assert request.args["failure"] == "prefill read_expired"
    assert request.colour == failure.colour
    assert [each.begin for each in told.of("moment", "failed")] == [failure.begin]


def test_what_was_lost_and_who_told_nothing() -> None:
    events = events_of(pull())
    lossy = [replace(process, lost=12) if process.engine == "p0" else process for process in events.processes]
    dark = Process(engine="d1", pid=7, note="vLLM 9.9 is not supported")
    told = read(trace_of(parts_of(Events(events.rows, (*lossy, dark), events.texts))))
    (whole,) = told.of("recording")
    assert (whole.name, whole.args["lost"]) == ("1 request, 12 events lost", 12)
    assert [each.name for each in told.of("loss")] == [
        "p0 process: lost 12 events",
        "d1 process, pid 7: vLLM 9.9 is not supported",
    ]


def test_times_before_zero_are_moved() -> None:
    told = of_items([{**item, "t": item["t"] - 1000 * MS} for item in pull()])
    assert min(each.begin for each in told.events) == 0
    assert told.of("recording")[0].args["added_to_times_ns"] == 1000 * MS
    assert names(told.of("path"))[-1] == ("decode_run", 11)


def test_an_id_that_is_used_again() -> None:
    """The moments of each attempt have the arrows of their own request."""
    told = of_items([*pulled("x", 0), *pulled("x", 20_000)], 30)
    flows = {each.begin: each.flows for each in told.of("connector", "submit")}
    first, second = (flows[round(ms * MS)] for ms in (117, 20_117))
    assert first != second
    for begin, flow in ((125, first), (20_125, second)):
        (seen,) = (each for each in told.of("moment", "done_seen") if each.begin == begin * MS)
        assert seen.flows == flow
    assert len(told.of("request")) == 2


def test_moments_of_no_request_are_drawn_all_the_same() -> None:
    stray = moment({"engine": "r", "leg": "router", "request": "nobody"}, "received", 3)
    told = of_items([*pull(), stray])
    assert [each.args["request"] for each in told.of("moment", "received")] == ["nobody"]


def test_one_that_waits_still() -> None:
    waiting = [each for each in push_early() if each["t"] <= 5 * MS]
    (request,) = of_items(waiting).of("request")
    assert (request.name, request.args["last_moment"], request.ns) == (
        "x unfinished",
        "decode registration_sent",
        5 * MS,
    )


def test_a_transfer_that_was_prepared_and_never_posted() -> None:
    told = of_items([each for each in push_early() if each["moment"] != "posted"])
    assert [each.name for each in told.of("connector")] == ["prepare"]
    assert "prepared" not in drawn(told) - Counter(post_begun=1)


def test_when_the_writer_did_not_look() -> None:
    """Each stretch once, until the first registration that its drain brought."""
    base = {"engine": "p0", "leg": "prefill", "thread": "writer"}
    received = [
        moment({**base, "request": f"cmpl-{name}-0-bbbbbbbb"}, "registration_received", ms, looked=round(looked * MS))
        for name, ms, looked in (("a", 10, 2), ("b", 10.2, 2), ("c", 30, 10.3))
    ]
    found = of_items([*pull(), *received]).of("drain")
    assert [(each.begin / MS, (each.end or 0) / MS) for each in found] == [(2, 10), (10.3, 30)]
    assert {each.track.rpartition("/")[2] for each in found} == {"p0 writer: between drains"}


def test_a_handshake_is_a_slice_where_it_ended_and_an_arrow_from_where_it_was_begun() -> None:
    base = {"engine": "d0", "peer_engine": "p0"}
    told = of_items(
        [
            *pull(),
            {**base, "t": 20 * MS, "moment": "handshake_begun", "thread": "worker"},
            {**base, "t": 33 * MS, "moment": "handshake_ended", "thread": "handshake", "rtt_ns": 5},
        ]
    )
    (begun,), (made,) = told.of("moment", "handshake_begun"), told.of("connector", "handshake")
    assert (made.begin, made.ns, made.args["peer_engine"]) == (20 * MS, 13 * MS, "p0")
    assert made.flows == begun.flows != ()
    assert (begun.track.rpartition("/")[2], made.track.rpartition("/")[2]) == ("d0 worker", "d0 handshake")


def test_engines_that_were_restarted_are_apart() -> None:
    again = [{**item, "t": item["t"] + 10**10, "engine_id": "second"} for item in pulled("y", 0)]
    first = [{**item, "engine_id": f"first-{item['engine']}"} for item in pulled("x", 0)]
    told = of_items([*first, *({**item, "engine_id": f"second-{item['engine']}"} for item in again)])
    roots = {track.name for track in told.tracks.values() if not track.parent_uuid}
    assert roots == {"1 requests", "2 prefill p0", "2 prefill p0, start 2", "3 decode d0", "3 decode d0, start 2"}


@settings(deadline=None, max_examples=15)
@given(fleets(), st.integers(20, 200))
def test_whatever_happens_paths_add_up_and_every_moment_is_drawn(fleet: list[Cause], size: int) -> None:
    every = [item for cause in fleet for item in items(cause)]
    told = of_items(every, size)
    straight(told)
    for request in split(events_of(every)):
        mine = [each for each in told.of("path") if each.args["request"] == request.request]
        assert [(each.name, each.begin, each.end) for each in mine] == [
            (span.stage, span.begin, span.end) for span in request.path
        ]
        if request.ttft_ns is not None:
            assert sum(each.ns for each in mine) == request.ttft_ns
    assert drawn(told) == Counter(item["moment"] for item in every)


@settings(deadline=None, max_examples=10)
@given(worlds(), st.integers(10, 100))
def test_every_moment_of_what_went_wrong(world: list[Items], size: int) -> None:
    every = [item for one in world for item in one]
    told = of_items(every, size)
    straight(told)
    assert drawn(told) == Counter(item["moment"] for item in every)
    assert {each.args["request"] for each in told.of("moment", "arrived")} == {
        item["request"] for item in every if item["moment"] == "arrived"
    }

"""Legs on hosts whose clocks are left alone: what compares is kept, what does not is said to be not known."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvscope.core.critical_path import split
from kvscope.core.hosts import ALONE
from kvscope.model.events import Events
from kvscope.model.requests import RequestSplit, State
from kvscope.model.splits import Splits
from kvscope.sources.jsonl import parse_jsonl

from .scene import D_ID, D_LEG, MS, P_ID, P_LEG, events_of, moment, moments, pull, push_early, push_sequential
from .simulator import Cause, fleets, items
from .unusual import on_hosts, years

EXAMPLES = settings(max_examples=40, deadline=None)


def plain(request: RequestSplit) -> RequestSplit:
    """Without instants, which a clock that is ahead moves, and ages, which end with the latest event."""
    moved = replace(request, origin=None, first_token=None, stamps=(), age_ns=None, idle_ns=None)
    return replace(moved, path=(), hidden_spans=())


def by_id(splits: Splits) -> dict[str, RequestSplit]:
    return {request.request: request for request in splits}


def two_hosts(fleet: list[Cause], ahead: int) -> Events:
    return parse_jsonl(json.dumps(item) for cause in fleet for item in on_hosts(items(cause), ahead)).events


@given(fleets(), years())
@EXAMPLES
def test_no_time_is_told_across_clocks_that_are_left_alone(fleet: list[Cause], ahead: int) -> None:
    """Whatever the clocks say, also where that looks sound; what lies on one host is told as ever."""
    together = by_id(split(parse_jsonl(json.dumps(item) for cause in fleet for item in items(cause)).events))
    splits = split(two_hosts(fleet, ahead), hosts=ALONE)
    assert splits.tally.order_violations == 0
    for row, request in enumerate(splits):
        if request.shape == "decode_only":
            assert plain(request) == plain(together[request.request])
            continue
        assert (request.state, request.marks) == (State.UNALIGNED, ("unaligned",))
        assert (request.ttft_ns, request.path, request.hidden_spans, request.exposed) == (None, (), (), {})
        assert (request.slack_ns, request.dispatch_parts, request.origin) == ({}, {}, None)
        assert request.shape == together[request.request].shape
        assert request.peer_request == together[request.request].peer_request
        assert splits.age[row] < 1000 * MS, "by its own host's clock"
        if request.shape == "push":
            assert request.reserved_idle_ns is None
        else:
            assert request.reserved_idle_ns == together[request.request].reserved_idle_ns


@given(fleets(), years(), st.randoms(use_true_random=False))
@EXAMPLES
def test_the_order_of_events_leaves_no_trace(fleet: list[Cause], ahead: int, rng: random.Random) -> None:
    events = two_hosts(fleet, ahead)
    order = list(range(len(events)))
    rng.shuffle(order)
    assert list(split(events)) == list(split(Events(events.rows[order], events.processes, events.texts)))


@pytest.mark.parametrize("told", [("", ""), ("boot-a", ""), ("", "boot-b"), ("boot-a", "boot-a")])
def test_only_hosts_that_are_told_and_differ_are_several(told: tuple[str, str]) -> None:
    hosts = dict(zip(("prefill", "decode"), told, strict=True))
    items = [{**item, "host": hosts[item["leg"]]} for item in push_early()]
    assert [(request.state, request.ttft_ns) for request in split(events_of(items))] == [(State.COMPLETE, 136 * MS)]


def test_a_router_on_another_host_is_another_clock() -> None:
    items = [{**item, "host": "boot-a"} for item in push_sequential()]
    router = {"engine": "router", "leg": "router", "request": "x", "host": "boot-r"}
    events = events_of([*items, *moments(router, received=0, prefill_returned=106, decode_sent=108)])
    (request,) = split(events, hosts=ALONE)
    assert (request.state, request.ttft_ns, request.dispatch_parts) == (State.UNALIGNED, None, {})


def test_what_is_missing_or_not_over_is_still_said() -> None:
    missing = [item for item in on_hosts(push_early(), 0) if item["moment"] != "prepared"]
    (request,) = split(events_of(missing), hosts=ALONE)
    assert (request.state, request.missing, request.marks) == (State.INCOMPLETE, ("prepared",), ("unaligned",))
    later = moment({"engine": "p0", "leg": "prefill"}, "load", 500)
    hung = [item for item in push_early() if item["moment"] not in ("first_token", "scheduled")]
    hung = on_hosts([*hung, later], 10**17)
    (request,) = split(events_of(hung), hosts=ALONE)
    assert (request.state, request.last_moment) == (State.UNFINISHED, "decode ready")
    assert request.idle_ns == 0


@given(years())
@EXAMPLES
def test_an_age_is_by_the_clock_of_its_host(ahead: int) -> None:
    """A hung request on each host; the other host's clock makes it neither older nor younger."""
    hung = [item for item in push_early() if item["leg"] == "decode" and item["t"] <= 5 * MS]
    here = [{**item, "request": "here", "engine": "d1", "host": "boot-a"} for item in hung]
    there = [{**item, "t": item["t"] + ahead, "host": "boot-b"} for item in hung]
    clocks = [
        {**moment({"engine": "d1", "leg": "engine"}, "load", 5000), "host": "boot-a"},
        {"t": 5000 * MS + ahead, "engine": "d0", "leg": "engine", "moment": "load", "host": "boot-b"},
    ]
    found = by_id(split(events_of([*here, *there, *clocks])))
    assert [(found[name].age_ns, found[name].idle_ns) for name in ("here", D_ID)] == [(4998 * MS, 4995 * MS)] * 2


def test_a_match_is_not_stale_by_another_hosts_clock() -> None:
    over = [*push_early(), moment(D_LEG, "finished", 1000)]
    splits = split(events_of(on_hosts(over, -(10**12))), hosts=ALONE)
    assert splits.tally.stale_matches == 0
    assert [(request.peer_request, request.shape) for request in splits] == [(P_ID, "push")]


def test_prefill_failed_by_another_clock_does_not_tell_what_came_first() -> None:
    hung = [item for item in pull() if item["moment"] not in ("ready", "scheduled", "first_token", "finished")]
    hung += [moment(D_LEG, "finished", 200, reason="abort"), moment(P_LEG, "failed", 150)]
    hung += [item for item in pull() if item["moment"] == "scheduled" and item["leg"] == "prefill"]
    assert [request.shape for request in split(events_of(hung))] == ["failed"]
    (request,) = split(events_of(on_hosts(hung, 10**15)), hosts=ALONE)
    assert (request.shape, request.state) == ("aborted", State.COMPLETE)
    assert request.failure == "prefill failed"

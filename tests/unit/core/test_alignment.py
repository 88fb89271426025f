"""Requests between two hosts whose clocks are told apart by nothing but their own messages."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvscope.core.critical_path import split
from kvscope.core.hosts import Hosts
from kvscope.core.messages import messages_of_exchanges
from kvscope.model.events import Events
from kvscope.model.exchange import Exchange
from kvscope.model.graph import STAGE_INDEX
from kvscope.model.requests import State
from kvscope.model.splits import Splits
from kvscope.model.stages import STAGES
from kvscope.probe.vocabulary import UNKNOWN
from kvscope.sources.jsonl import parse_jsonl

from .scene import MS, events_of, moment, moments, pull, push_early, push_sequential
from .simulator import Cause, causes, edges_of, fleets, items
from .unusual import on_hosts, years

SECOND, HOUR = 1000 * MS, 3_600_000 * MS
EXAMPLES = settings(max_examples=30, deadline=None)
CROSSING = ("dispatch", "registration_flight", "notice", "submit", "poll_gap", "wire", "router")
"""Stages that may have an end on either host: a post may return after decode was notified."""


def parsed(found: list[dict[str, Any]]) -> Events:
    return parse_jsonl(json.dumps(item) for item in found).events


def rows_of(splits: Splits) -> dict[str, int]:
    return {splits.text(row): row for row in range(len(splits))}


def compared(true: Splits, found: Splits, rate: float = 0.0) -> tuple[int, int]:
    """Hold every aligned request against the same by one clock: (how many there are, of how many all is within)."""
    rows, inside, aligned = rows_of(true), 0, 0
    for text, row in rows_of(found).items():
        if found.marked("unaligned")[row] or not found.timed[row]:
            continue
        aligned += 1
        other, bound = rows[text], int(found.clock_bound[row])
        assert found.ttft[row] == found.exposed[row].sum() == found.first_token[row] - found.origin[row]
        slack = 3 + rate * abs(int(true.ttft[other]))  # by which clock a leg's own stages are told
        total = found.exposed[row] + found.hidden[row]
        expected = true.exposed[other] + true.hidden[other]
        apart = np.abs(total - expected)
        same = [index for name, index in STAGE_INDEX.items() if name not in CROSSING]
        if rate == 0.0 and np.array_equal(found.walks[row], true.walks[other]):
            assert apart[same].max() == 0, "what lies on one host is exact"
            crossed = set(found[row].between_clocks)
            told = [stage for stage, index in STAGE_INDEX.items() if apart[index] and total[index]]
            assert set(told) <= crossed, "and what does not is told apart"
        # Which branch came last may be decided by instants on both hosts that are nearer than the bound.
        alike = np.array_equal(found.walks[row], true.walks[other])
        good = (apart <= bound + slack).all() or not alike
        inside += bool(good and abs(found.ttft[row] - true.ttft[other]) <= bound + slack)
    return aligned, inside


@given(fleets(), years())
@EXAMPLES
def test_splits_are_those_of_one_clock_within_the_bound(fleet: list[Cause], ahead: int) -> None:
    moved = [item for cause in fleet for item in on_hosts(items(cause), ahead)]
    true, found = split(parsed([item for cause in fleet for item in items(cause)])), split(parsed(moved))
    aligned, inside = compared(true, found)
    assert aligned == inside
    assert found.tally.order_violations == 0
    if any(cause.shape == "push" for cause in fleet):
        assert not found.marked("unaligned").any(), "a push says as much of the clocks as is needed"


@given(fleets(), years(), st.randoms(use_true_random=False))
@EXAMPLES
def test_the_order_of_events_leaves_no_trace(fleet: list[Cause], ahead: int, rng: random.Random) -> None:
    events = parsed([item for cause in fleet for item in on_hosts(items(cause), ahead)])
    order = list(range(len(events)))
    rng.shuffle(order)
    mixed = split(Events(events.rows[order], events.processes, events.texts))
    assert list(split(events)) == list(mixed)
    assert split(events).clocks == mixed.clocks


def drawn(rng: random.Random, number: int, start: int) -> Cause:
    """A request as long as real ones are, with delays that now and then are long."""
    shape = rng.choice(("push", "push", "pull", "decode_only"))
    knew, in_flight = shape == "pull" or rng.random() < 0.3, rng.random() < 0.6
    edges = edges_of(shape, knew, in_flight)
    delays = tuple((edge, int(rng.paretovariate(1.3) * rng.uniform(0.05, 2) * MS)) for edge in edges)
    return Cause(number, shape, knew, rng.random() < 0.5, in_flight, False, start, delays, rng.randrange(MS))


def long_ago(item: dict[str, Any], ahead: int, rate: float, stop: tuple[int, int]) -> dict[str, Any]:
    """Decode's moment by its own clock: ahead, faster, and stopped for a while at some time."""
    if item["leg"] == "prefill":
        return {**item, "host": "boot-a"}
    when, ns = stop
    t = item["t"] - min(max(item["t"] - when, 0), ns)
    return {**item, "host": "boot-b", "t": ahead + round(t * (1 + rate))}


@pytest.mark.parametrize("stop", [(0, 0), (60 * SECOND, 2 * HOUR)])
def test_the_bound_holds_over_minutes_of_drift_and_a_suspended_host(stop: tuple[int, int]) -> None:
    aligned = inside = steps = 0
    for seed in range(6):
        rng = random.Random(seed)
        fleet = [drawn(rng, number, number * SECOND // 2) for number in range(240)]
        when, ns = stop
        fleet = [replace(each, start=each.start + ns * (each.start > when)) for each in fleet]
        made = [item for cause in fleet for item in items(cause)]
        ahead, rate = rng.randrange(-9 * HOUR, 9 * HOUR), rng.uniform(-1e-4, 1e-4)
        found = split(parsed([long_ago(item, ahead, rate, stop) for item in made]))
        each, good = compared(split(parsed(made)), found, 1e-4)
        aligned, inside = aligned + each, inside + good
        steps += sum(pair.steps for pair in found.clocks)
        (pair,) = found.clocks
        assert pair.drift is not None
        assert pair.drift[0] <= rate <= pair.drift[1]
    assert inside >= 0.99 * aligned, (inside, aligned)
    assert aligned > 6 * 240 * 0.9
    assert steps == 6 * (stop[1] > 0)


def test_a_stage_that_is_shorter_than_its_bound_is_told_so() -> None:
    """The registration took 3 ms, and from the last poll in flight to the notice it was 3: half of that each way."""
    splits = split(events_of(on_hosts(push_sequential(), 5 * HOUR)))
    assert splits.complete.all()
    assert abs(splits.ttft[0] - 147 * MS) < MS / 100
    assert abs(splits.clock_bound[0] - 3 * MS) < MS / 100
    names = [stage.name for stage in STAGES]
    assert [names[at] for at in np.flatnonzero(splits.uncertain[0])] == ["registration_flight", "notice"]


def test_what_contradicts_the_clocks_is_counted_and_not_told() -> None:
    """Decode began 50 ms before what it was told to have waited for: no offset makes that right."""
    fleet = [replace_ids(push_sequential(), number) for number in range(5)]
    odd = [
        {**item, "t": item["t"] - 50 * MS} if item["moment"] == "arrived" and item["leg"] == "decode" else item
        for item in fleet[2]
    ]
    splits = split(events_of(on_hosts([*fleet[0], *fleet[1], *odd, *fleet[3], *fleet[4]], HOUR)))
    assert splits.tally.order_violations == 1
    assert sorted(request.marks for request in splits) == [(), (), (), (), ("order_violation", "unaligned")]
    assert splits.ttft[splits.marked("unaligned")].tolist() == [UNKNOWN]


def _is(item: dict[str, Any], leg: str, *names: str) -> bool:
    return item["leg"] == leg and item["moment"] in names


def replace_ids(found: list[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    text = json.dumps([{**item, "t": item["t"] + number * SECOND} for item in found])
    return list(json.loads(text.replace("cmpl-x-", f"cmpl-x{number}-")))


def test_agents_align_what_requests_alone_cannot() -> None:
    """A pull says when decode began at the earliest, and nothing the other way round."""
    read = on_hosts([item for item in pull() if item["moment"] != "released"], HOUR)
    (alone,) = split(events_of(read))
    assert alone.state is State.UNALIGNED
    asked = Exchange("boot-a", "boot-b", 90 * MS, HOUR + 91 * MS, HOUR + 92 * MS, 93 * MS)
    (request,) = split(events_of(read), hosts=Hosts(messages_of_exchanges([asked])))
    assert request.ttft_ns is not None
    assert abs(request.ttft_ns - 140 * MS) < MS / 100


def test_hosts_that_both_know_a_third_know_each_other() -> None:
    read = on_hosts([item for item in pull() if item["moment"] != "released"], HOUR)
    told = [
        Exchange("boot-a", "aggregator", 90 * MS, 7 * HOUR + 91 * MS, 7 * HOUR + 92 * MS, 93 * MS),
        Exchange("boot-b", "aggregator", HOUR + 90 * MS, 7 * HOUR + 91 * MS, 7 * HOUR + 92 * MS, HOUR + 93 * MS),
    ]
    splits = split(events_of(read), hosts=Hosts(messages_of_exchanges(told)))
    assert abs(splits.ttft[0] - 140 * MS) < MS / 100
    assert 2 * MS <= splits.clock_bound[0] <= 2.1 * MS, "half of both round trips"


def test_a_router_on_a_third_host_is_a_clock_like_any_other() -> None:
    router = {"engine": "router", "leg": "router", "request": "x", "host": "boot-r"}
    asked = {"received": -1, "prefill_sent": -0.5, "prefill_returned": 106, "decode_sent": 108}
    third = [{**item, "t": item["t"] + 9 * HOUR} for item in moments(router, **asked)]
    (request,) = split(events_of([*on_hosts(push_sequential(), HOUR), *third]))
    assert request.state is State.COMPLETE
    assert request.ttft_ns is not None
    assert abs(request.ttft_ns - 148 * MS) <= 3 * MS


@given(causes(shapes=("push",)), years())
@EXAMPLES
def test_ages_are_by_the_clock_that_has_come_furthest(cause: Cause, ahead: int) -> None:
    hung = [
        item for item in items(cause) if item["moment"] not in ("first_token", "scheduled") or item["leg"] == "prefill"
    ]
    later = moment({"engine": "p0", "leg": "prefill"}, "load", 500)
    (request,) = split(parsed(on_hosts([*hung, later], ahead)))
    assert request.state is State.UNFINISHED
    (true,) = split(parsed([*hung, later]))
    assert request.age_ns is not None
    assert true.age_ns is not None
    assert abs(request.age_ns - true.age_ns) <= 5 * MS


def test_a_match_is_stale_by_clocks_that_compare() -> None:
    fleet = [item for number in range(3) for item in replace_ids(push_early(), number)]
    over = [*fleet, moment({"engine": "d0", "leg": "decode", "request": "cmpl-x1-0-bbbbbbbb"}, "finished", 1050)]
    splits = split(events_of(on_hosts(over, HOUR)))
    assert splits.tally.stale_matches == split(events_of(over)).tally.stale_matches == 1

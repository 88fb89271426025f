"""Requests that answer for long cost nothing meanwhile, and come out as if they had been looked at all the time."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvscope.core.critical_path import split
from kvscope.core.stream import SECOND, Limits, Stream
from kvscope.model.events import Events
from kvscope.model.requests import RequestSplit, State
from kvscope.model.splits import Splits
from kvscope.sources.jsonl import parse_jsonl

from .scene import D_ID, D_LEG, MS, P_ID, P_LEG, events_of, moment, pull, push_early
from .simulator import Cause, fleets
from .test_stream import batches, ended

Items = list[dict[str, Any]]
CLOCK = {"engine": "d0", "leg": "engine"}


def tick(ms: float) -> Events:
    return events_of([moment(CLOCK, "load", ms)])


def flat(parts: list[Splits]) -> list[RequestSplit]:
    return [request for splits in parts for request in splits]


def running(scene: Items) -> Items:
    """All of the scene but its ends."""
    return [item for item in scene if item["moment"] not in ("finished", "released")]


def answering(scene: Items) -> Stream:
    """A stream in which the scene's request answered and was put by."""
    stream = Stream(Limits(sweep_ns=2 * SECOND))
    stream.advance(events_of(running(scene)))
    _, first, _ = stream.advance(tick(500))
    assert len(first) == 1
    assert parked(stream) == len(running(scene))
    return stream


def parked(stream: Stream) -> int:
    return len(stream._parked)


@given(fleets(most=8), st.lists(st.integers(1, 40), min_size=1, max_size=4))
@settings(max_examples=30, deadline=None)
def test_every_request_comes_out_as_it_does_of_a_recording(fleet: list[Cause], sizes: list[int]) -> None:
    events = parse_jsonl(json.dumps(item) for item in ended(fleet, SECOND // 10)).events
    events.rows.sort(order="t")
    stream = Stream(Limits())
    over: list[Splits] = []
    for part in batches(events, sizes):
        over += stream.advance(part)[0]
    over += stream.close()
    whole = {request.request or request.peer_request: request for request in split(events)}
    assert len(flat(over)) == len(whole)
    for request in flat(over):
        same = whole[request.request or request.peer_request]
        assert (request.ttft_ns, request.exposed, request.state) == (same.ttft_ns, same.exposed, same.state)
    assert stream.tally.events == len(events)


@pytest.mark.parametrize("scene", [push_early, pull])
def test_a_long_answer_is_put_by_until_it_ends(scene: Callable[[], Items]) -> None:
    items = scene()
    stream = answering(items)
    for second in range(1, 300):
        over, first, waiting = stream.advance(tick(1000 * second))
        assert (over, len(first), len(waiting)) == ([], 0, 0)
    assert parked(stream) > 0
    late = [moment(D_LEG, "finished", 300_000, tokens=99), moment(P_LEG, "released", 300_001)]
    over, *_ = stream.advance(events_of(late))
    assert over == []
    over, first, _ = stream.advance(tick(301_500))
    (request,) = flat(over)
    assert (request.output_tokens, request.complete, len(first)) == (99, True, 0)
    assert request.exposed == next(iter(split(events_of([*items, *late])))).exposed
    assert parked(stream) == 0


def test_prefill_that_never_frees_its_blocks_is_over_after_the_lease() -> None:
    stream = answering(push_early())
    stream.advance(events_of([moment(D_LEG, "finished", 900, tokens=9)]))
    over = [part for second in range(2, 70) for part in stream.advance(tick(1000 * second))[0]]
    (request,) = flat(over)
    assert (request.output_tokens, request.pinned_ns) == (9, None)


def test_an_answer_of_which_nothing_is_heard_is_given_up() -> None:
    stream = answering(push_early())
    over = [part for second in range(2, 640, 2) for part in stream.advance(tick(1000 * second))[0]]
    (request,) = flat(over)
    assert request.state is State.COMPLETE
    assert stream.tally.evicted == 1
    assert parked(stream) == 0


def test_an_id_used_again_while_its_first_request_answers_is_another_request() -> None:
    stream = answering(push_early())
    again = [{**item, "t": item["t"] + 2_000 * MS} for item in push_early()]
    first = [request for part in (events_of(again), tick(2_600)) for request in stream.advance(part)[1]]
    assert [request.ttft_ns for request in first] == [next(iter(split(events_of(push_early())))).ttft_ns]


def test_another_child_of_the_prompt_finds_prefill_that_was_put_by() -> None:
    stream = answering(pull())
    child = [{**i, "request": "1_" + D_ID, "t": i["t"] + 900 * MS} for i in running(pull()) if i["leg"] == "decode"]
    stream.advance(events_of(child))
    _, first, _ = stream.advance(tick(1_500))
    (late,) = first
    assert (late.request, late.peer_request, late.prefill_engine) == ("1_" + D_ID, P_ID, "p0")
    ends = [moment({**D_LEG, "request": name}, "finished", 2_000, tokens=9) for name in (D_ID, "1_" + D_ID)]
    over = stream.advance(events_of([*ends, moment(P_LEG, "released", 2_001)]))[0]
    over += stream.advance(tick(4_000))[0]
    assert sorted(request.request for request in flat(over)) == ["1_" + D_ID, D_ID]
    assert {request.state for request in flat(over)} == {State.COMPLETE}


def test_when_there_is_no_room_the_longest_silent_go_though_they_answer() -> None:
    stream = Stream(replace(Limits(), max_rows=60))
    items = running(push_early())
    for number in range(4):
        names = {P_ID: f"p-{number}", D_ID: f"d-{number}"}
        placed = [
            {**{k: names.get(v, v) if isinstance(v, str) else v for k, v in item.items()},
             "t": item["t"] + 5_000 * number * MS}
            for item in items
        ]  # fmt: skip
        stream.advance(events_of(placed))
        stream.advance(tick(5_000 * number + 500))
    assert stream.tally.evicted > 0
    assert stream.held < 60 + len(items)

"""Streaming gives what a recording gives, holds little, and says what it gave up."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kvscope.core.critical_path import ordered, split
from kvscope.core.stream import SECOND, Limits, Stream
from kvscope.model.events import Events
from kvscope.model.requests import RequestSplit, State, Tally
from kvscope.model.splits import Splits, concat
from kvscope.sources.jsonl import parse_jsonl

from .scene import D_ID, D_LEG, MS, P_ID, P_LEG, events_of, moment, pull, push_early
from .simulator import Cause, fleets, items

EXAMPLES = settings(max_examples=30, deadline=None)


def whole(parts: list[Splits]) -> Splits:
    return ordered(concat(parts))


def plain(splits: Splits) -> list[RequestSplit]:
    """Without what depends on when it was looked at."""
    return [replace(request, age_ns=None, idle_ns=None) for request in splits]


def ended(fleet: list[Cause], apart: int) -> list[dict[str, object]]:
    """The fleet's moments, each request `apart` ns after the one before, with the ends that engines stamp."""
    found: list[dict[str, object]] = []
    for cause in fleet:
        mine = items(replace(cause, start=cause.start + cause.number * apart))
        last = max(item["t"] for item in mine)
        for leg, name in (("decode", "finished"), ("decode", "released"), ("prefill", "released")):
            base = next((item for item in mine if item["leg"] == leg), None)
            if base is not None and cause.number % 4 != 3:  # every fourth goes on
                identity = {key: base[key] for key in ("engine", "leg")}
                request = f"cmpl-r{cause.number}-0-{'bbbbbbbb' if leg == 'decode' else 'aaaaaaaa'}"
                mine.append({"t": last + 5, "moment": name, "request": request, **identity})
        found += mine
    return found


def batches(events: Events, sizes: list[int]) -> list[Events]:
    parts: list[Events] = []
    begin = 0
    while begin < len(events):
        size = sizes[len(parts) % len(sizes)]
        parts.append(Events(events.rows[begin : begin + size], events.processes, events.texts))
        begin += size
    return parts


@given(fleets(most=8), st.lists(st.integers(1, 40), min_size=1, max_size=4), st.randoms(use_true_random=False))
@EXAMPLES
def test_batches_in_any_order_give_what_the_whole_gives(
    fleet: list[Cause], sizes: list[int], rng: random.Random
) -> None:
    """As long as disorder stays within what the stream waits for."""
    events = parse_jsonl(json.dumps(item) for item in ended(fleet, 10 * SECOND)).events
    jitter = np.array([rng.randrange(SECOND // 2) for _ in range(len(events))])
    mixed = Events(events.rows[np.argsort(events.rows["t"] + jitter)], events.processes, events.texts)
    stream = Stream(Limits())
    parts = [splits for part in batches(mixed, sizes) for splits in stream.feed(part)]
    parts += stream.close()
    expected = split(events)
    assert plain(whole(parts)) == plain(expected)
    assert stream.tally == concat(parts).tally == expected.tally
    assert stream.held == 0


def test_a_request_comes_out_once_both_its_legs_have_ended() -> None:
    stream = Stream(Limits())
    items = [*pull(), moment(D_LEG, "released", 241), moment(P_LEG, "released", 242)]
    assert stream.feed(events_of(items)) == []
    clock = moment({"engine": "d0", "leg": "engine"}, "load", 242 + 1000, waiting=0)
    (splits,) = stream.feed(events_of([clock]))
    assert [request.ttft_ns for request in splits] == [140 * MS]
    assert stream.close() == []


def test_late_events_are_counted_and_open_nothing_anew() -> None:
    stream = Stream(Limits())
    clock = [moment({"engine": "d0", "leg": "engine"}, "load", ms, waiting=0) for ms in (3000, 6000)]
    stream.feed(events_of(pull()))
    assert len(stream.feed(events_of(clock[:1]))) == 1
    late = pull()[:3]
    stream.feed(events_of([*late, *clock[1:]]))
    stream.close()
    assert stream.tally.late == len(late)


def test_a_hung_push_is_waiting_until_it_is_given_up() -> None:
    hung = [i for i in push_early() if i["leg"] == "decode" and i["t"] <= 5 * MS]
    stream = Stream(Limits(give_up_ns=30 * SECOND))
    stream.feed(events_of(hung))
    clock = {"engine": "p0", "leg": "engine"}
    assert stream.feed(events_of([moment(clock, "load", 20_000)])) == []
    (waiting,) = stream.look()[1]
    assert (waiting.state, waiting.last_moment) == (State.UNFINISHED, "decode registration_sent")
    assert waiting.idle_ns == 19_995 * MS
    (splits,) = stream.feed(events_of([moment(clock, "load", 40_000)]))
    assert [request.state for request in splits] == [State.UNFINISHED]
    assert stream.tally.evicted == 1
    assert len(stream.look()[1]) == 0


def test_a_long_answer_is_not_cut_off() -> None:
    """First token at 140 ms, finished a minute later."""
    answer = [i for i in pull() if i["moment"] != "finished"]
    stream = Stream(Limits())
    given_out = stream.feed(events_of(answer))
    for second in range(1, 60):
        given_out += stream.feed(events_of([moment({"engine": "d0", "leg": "engine"}, "load", second * 1000)]))
    assert given_out == []
    given_out = stream.feed(events_of([moment(D_LEG, "finished", 60_140, tokens=601)]))
    given_out += stream.close()
    assert [request.tpot_ns for splits in given_out for request in splits] == [100 * MS]


def test_memory_is_bounded_by_giving_up_the_longest_silent() -> None:
    stream = Stream(Limits(max_rows=500))
    hung = [i for i in push_early() if i["leg"] == "decode" and i["t"] <= 5 * MS]
    given_out = 0
    for number in range(400):
        items = [{**i, "request": f"r{number}", "t": i["t"] + number * 100 * MS} for i in hung]
        given_out += sum(len(splits) for splits in stream.feed(events_of(items)))
        assert stream.held <= 500 + 40
    assert given_out == stream.tally.evicted > 300


def test_children_of_one_prompt_are_given_out_together() -> None:
    child = [{**i, "request": "1_" + D_ID, "t": i["t"] + 5000 * MS} for i in pull() if i["leg"] == "decode"]
    first = [i for i in pull() if i["leg"] == "decode" or i["moment"] != "released"]
    started = [i for i in child if i["moment"] == "reserved"]
    stream = Stream(Limits())
    released = {"t": 150 * MS, "moment": "released", **P_LEG}
    clock = {"engine": "d0", "leg": "engine"}
    assert stream.feed(events_of([*first, released, *started])) == []
    assert stream.feed(events_of([moment(clock, "load", 5900)])) == []
    rest = [i for i in child if i["moment"] != "reserved"]
    parts = stream.feed(events_of([*rest, moment(clock, "load", 9000)]))
    assert [len(splits) for splits in parts] == [2]
    assert [request.pinned_ns for request in parts[0]].count(None) == 1
    assert parts[0][0].peer_request == P_ID


def test_what_a_process_lost_is_counted_once() -> None:
    events = events_of(pull())
    stream = Stream(Limits())
    for lost in (2, 2, 5):
        processes = tuple(replace(process, lost=lost) for process in events.processes)
        stream.feed(Events(events.rows[:0], processes, {}))
    stream.close()
    assert stream.tally == Tally(lost=5 * len(events.processes))


def test_an_empty_stream() -> None:
    stream = Stream(Limits())
    assert (stream.feed(parse_jsonl([]).events), len(stream.look()[1]), stream.close()) == ([], 0, [])


def test_an_id_that_is_used_again_is_another_request() -> None:
    """Whether the first was closed by then or not."""
    ends = [moment(D_LEG, "finished", 140), moment(D_LEG, "released", 141)]
    attempt = [*push_early(), *ends]
    for apart in (1000, 20_000):
        again = [{**i, "t": i["t"] + apart * MS} for i in attempt]
        again = [{**i, "looked": i["looked"] + apart * MS} if "looked" in i else i for i in again]
        stream = Stream(Limits())
        parts = [splits for part in (attempt, again) for splits in stream.feed(events_of(part))]
        parts += stream.close()
        assert [request.ttft_ns for splits in parts for request in splits] == [136 * MS] * 2
        assert stream.tally == Tally(events=2 * len(attempt))


def test_records_of_a_router_in_front_of_dark_engines_do_not_pile_up() -> None:
    stream = Stream(Limits(give_up_ns=10 * SECOND))
    router = {"engine": "r", "leg": "router"}
    for second in range(100):
        stream.feed(events_of([moment({**router, "request": f"x{second}"}, "received", second * 1000)]))
        assert stream.held < 25
    stream.close()
    assert stream.tally.strays > 70

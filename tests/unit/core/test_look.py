"""What a live view sees before requests are over: each first token once, with the split it will have in the end."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from kvscope.core.critical_path import split
from kvscope.core.stream import SECOND, Limits, Stream
from kvscope.model.events import Events
from kvscope.model.requests import RequestSplit
from kvscope.sources.jsonl import parse_jsonl

from .scene import D_ID, D_LEG, MS, events_of, moment, pull
from .simulator import Cause, fleets
from .test_stream import batches, ended

CLOCK = {"engine": "d0", "leg": "engine"}


def paths(requests: list[RequestSplit]) -> dict[str, tuple[int | None, dict[str, int]]]:
    return {request.request: (request.ttft_ns, request.exposed) for request in requests}


@given(fleets(most=8), st.lists(st.integers(1, 40), min_size=1, max_size=4))
@settings(max_examples=30, deadline=None)
def test_first_tokens_are_seen_once_and_as_they_stay(fleet: list[Cause], sizes: list[int]) -> None:
    events = parse_jsonl(json.dumps(item) for item in ended(fleet, SECOND // 10)).events
    events.rows.sort(order="t")
    stream = Stream(Limits())
    early: list[RequestSplit] = []
    over: list[RequestSplit] = []
    for part in batches(events, sizes):
        over += [request for splits in stream.feed(part) for request in splits]
        early += stream.look()[0]
    over += [request for splits in stream.close() for request in splits]
    seen, final = paths(early), paths(over)
    assert len(seen) == len(early)
    # What was stamped after the first token (a late poll) may be all that is missing from an early path.
    assert {name: ttft for name, (ttft, _) in seen.items()} == {name: final[name][0] for name in seen}
    assert paths(list(split(events))) == final


def test_a_running_answer_is_seen_before_it_ends() -> None:
    stream = Stream(Limits())
    answer = [i for i in pull() if i["moment"] != "finished"]
    stream.feed(events_of(answer[: len(answer) // 2]))
    first, waiting = stream.look()
    assert (len(first), [request.request for request in waiting]) == (0, [D_ID])
    stream.feed(events_of([*answer[len(answer) // 2 :], moment(CLOCK, "load", 400)]))
    first, waiting = stream.look()
    assert ([request.ttft_ns for request in first], len(waiting)) == ([140 * MS], 0)
    assert [len(found) for found in stream.look()] == [0, 0]
    over = stream.feed(events_of([moment(D_LEG, "finished", 900, tokens=9), moment(CLOCK, "load", 20_000)]))
    over += stream.close()
    assert [request.output_tokens for splits in over for request in splits] == [9]


def test_another_child_of_the_prompt_finds_its_prefill() -> None:
    child = [{**i, "request": "1_" + D_ID, "t": i["t"] + 40 * MS} for i in pull() if i["leg"] == "decode"]
    stream = Stream(Limits())
    prompt = [i for i in pull() if i["leg"] == "prefill"]
    stream.feed(events_of([*prompt, *(i for i in pull() if i["leg"] == "decode"), moment(CLOCK, "load", 300)]))
    assert len(stream.look()[0]) == 1
    stream.feed(events_of([*child, moment(CLOCK, "load", 600)]))
    (late,) = stream.look()[0]
    assert (late.request, late.prefill_engine) == ("1_" + D_ID, "p0")


def test_a_request_is_in_every_look_while_its_first_token_comes() -> None:
    events = events_of(pull())
    events.rows.sort(order="t")
    for step in range(1, 60, 7):
        stream = Stream(Limits())
        for begin in range(0, len(events), step):
            first, waiting = stream.advance(batch(events, begin, begin + step))[1:]
            assert len(first) + len(waiting) == 1, (step, begin)
            if len(first):
                break


def batch(events: Events, begin: int, end: int) -> Events:
    return Events(events.rows[begin:end], events.processes, events.texts)

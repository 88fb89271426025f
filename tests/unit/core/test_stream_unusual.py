"""What is unusual comes out of a stream as it does of a recording: failures, clean-ups, made-up ids, several clocks."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvscope.core.critical_path import split
from kvscope.core.hosts import ALONE
from kvscope.core.stream import SECOND, Limits, Stream
from kvscope.model.requests import State
from kvscope.model.splits import Splits, concat
from kvscope.sources.jsonl import parse_jsonl

from .scene import D_LEG, MS, events_of, moment, pull, push_early
from .simulator import Cause, fleets
from .test_stream import batches, ended, plain, whole
from .unusual import Items, on_hosts, refused, worlds, years

EXAMPLES = settings(max_examples=40, deadline=None)
SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=4)
CLOCK = {"engine": "d0", "leg": "engine"}


def streamed(items: Items, sizes: list[int], limits: Limits | None = None) -> tuple[Stream, list[Splits]]:
    """What a stream makes of moments that come in this order."""
    stream = Stream(limits or Limits())
    events = parse_jsonl(json.dumps(item) for item in items).events
    parts = [splits for part in batches(events, sizes) for splits in stream.feed(part)]
    return stream, parts + stream.close()


def agrees(items: Items, sizes: list[int]) -> None:
    stream, parts = streamed(items, sizes)
    expected = split(parse_jsonl(json.dumps(item) for item in items).events, hosts=ALONE)
    assert sum(len(splits) for splits in parts) == len(expected)
    if parts:
        assert plain(whole(parts)) == plain(expected)
        assert concat(parts).tally == expected.tally
    assert stream.tally == expected.tally
    assert stream.held == 0


def as_they_come(items: Items, rng: random.Random) -> Items:
    """Moments in the order in which they are read: a little mixed."""
    return sorted(items, key=lambda item: item["t"] + rng.randrange(SECOND // 2))


@given(worlds(), SIZES, st.randoms(use_true_random=False))
@EXAMPLES
def test_what_went_wrong_is_told_alike(world: list[Items], sizes: list[int], rng: random.Random) -> None:
    agrees(as_they_come([item for request in world for item in request], rng), sizes)


@given(worlds(most=4), fleets(most=4), years(), SIZES, st.randoms(use_true_random=False))
@EXAMPLES
def test_with_several_clocks_too(
    world: list[Items], fleet: list[Cause], ahead: int, sizes: list[int], rng: random.Random
) -> None:
    """They come as they happen, whatever their hosts' clocks say."""
    moments = [item for request in world for item in request] + ended(fleet, 10 * SECOND)
    agrees(on_hosts(as_they_come(moments, rng), ahead), sizes)


@pytest.mark.parametrize("ahead", [-(10**17), 10**17])
def test_a_host_whose_clock_is_behind_is_not_given_up(ahead: int) -> None:
    """An answer of a minute on each of two hosts: both are whole in the end."""
    answer = [item for item in pull() if item["moment"] != "finished"]
    answer += [moment(D_LEG, "held", second * 1000, reason="blocks") for second in range(1, 60, 20)]
    answer += [moment(CLOCK, "load", second * 1000) for second in range(62)]
    answer.append(moment(D_LEG, "finished", 60_000, tokens=9))
    answer.sort(key=lambda item: item["t"])
    names = {"p0": "p1", "d0": "d1"}
    both = []
    for item in answer:
        there = {key: names.get(value, value) for key, value in item.items()}
        both += [{**item, "host": "boot-a"}, {**there, "host": "boot-b", "t": item["t"] + ahead}]
    stream, parts = streamed(both, [7], Limits(give_up_ns=30 * SECOND))
    assert [request.ttft_ns for splits in parts for request in splits] == [140 * MS] * 2
    assert (stream.tally.evicted, stream.tally.late) == (0, 0)


def test_clean_ups_do_not_pile_up_and_are_counted_once() -> None:
    stream = Stream(Limits())
    held = []
    for second in range(100):
        stream.feed(events_of(refused(f"{second:016x}", second * 1000)))
        held.append(stream.held)
    assert max(held) < 100
    stream.close()
    assert (stream.tally.cleanups, stream.tally.evicted, stream.held) == (100, 0, 0)


def test_counts_come_along_even_where_no_request_does() -> None:
    items = [*refused("0123456789abcdef", 0), moment({"engine": "r", "leg": "router", "request": "y"}, "received", 1)]
    _, parts = streamed(items, [3])
    assert [(len(splits), splits.tally) for splits in parts] == [(0, split(events_of(items)).tally)]


def test_a_hung_push_on_the_host_that_is_behind_is_waiting() -> None:
    hung = [item for item in push_early() if item["leg"] == "decode" and item["t"] <= 5 * MS]
    stream = Stream(Limits(give_up_ns=30 * SECOND))
    for second in (0, 10, 20):
        items = (hung if not second else []) + [moment(CLOCK, "load", second * 1000)]
        ahead = {**moment({"engine": "p0", "leg": "engine"}, "load", second * 1000 + 10**9), "host": "boot-a"}
        assert stream.feed(events_of([*({**item, "host": "boot-b"} for item in items), ahead])) == []
    (waiting,) = stream.look()[1]
    assert (waiting.state, waiting.idle_ns) == (State.UNFINISHED, 19_995 * MS)

"""Requests between two hosts, as they come: what was heard of the clocks is kept when the requests are gone."""

from __future__ import annotations

import random

from kvscope.core.critical_path import split
from kvscope.core.hosts import Hosts
from kvscope.core.stream import SECOND, Limits, Stream
from kvscope.model.events import Events
from kvscope.model.requests import State
from kvscope.model.splits import Splits, concat

from .scene import MS
from .simulator import items
from .test_alignment import HOUR, compared, drawn, parsed
from .unusual import on_hosts


def ended(number: int, fleet: list[dict[str, object]]) -> list[dict[str, object]]:
    """With the ends that engines stamp, a few ms after the last moment of the leg."""
    found = list(fleet)
    for leg, letter, name in (("decode", "b", "finished"), ("decode", "b", "released"), ("prefill", "a", "released")):
        mine = [item for item in fleet if item["leg"] == leg]
        if mine:
            its = {"engine": mine[0]["engine"], "leg": leg, "request": f"cmpl-r{number}-0-{letter * 8}"}
            found.append({"t": max(int(str(item["t"])) for item in fleet) + 5 * MS, "moment": name, **its})
    return found


def test_what_comes_is_told_as_what_was_recorded() -> None:
    rng = random.Random(5)
    fleet = [drawn(rng, number, number * SECOND // 2) for number in range(80)]
    made = [item for cause in fleet for item in ended(cause.number, items(cause))]
    true, events = split(parsed(made)), parsed(on_hosts(made, 7 * HOUR))
    stream, given = Stream(Limits(), Hosts()), []
    rows = events.rows[rng.sample(range(len(events)), len(events))]
    own = rows["t"] - 7 * HOUR * (rows["t"] > 3 * HOUR)
    rows = rows[own.argsort(kind="stable")]
    for begin in range(0, len(rows), 64):
        given += stream.feed(Events(rows[begin : begin + 64], events.processes, events.texts))
    found = concat(given + stream.close())
    aligned, inside = compared(true, found)
    assert aligned == inside
    first = [row for row in range(len(found)) if found.marked("unaligned")[row]]
    assert aligned + len(first) == 80
    assert len(first) <= 3, "those that were over before anything was heard the other way round"
    assert found.in_state(State.COMPLETE).sum() == aligned
    assert len(found.clocks) == 1
    assert stream.held == 0


def test_clocks_are_left_alone_unless_they_are_to_be_compared() -> None:
    rng = random.Random(6)
    made = [item for number in range(4) for item in items(drawn(rng, number, number * SECOND))]
    found = concat(_all(parsed(on_hosts(made, HOUR))))
    assert found.clocks == ()


def _all(events: Events) -> list[Splits]:
    stream = Stream(Limits())
    return [*stream.feed(events), *stream.close()]

"""Requests between two hosts, as they come: what was heard of the clocks is kept when the requests are gone."""

from __future__ import annotations

import random

import numpy as np
import pytest

from kvscope.core.critical_path import split
from kvscope.core.hosts import Hosts
from kvscope.core.stream import SECOND, Limits, Stream
from kvscope.model.events import Events
from kvscope.model.exchange import Exchange
from kvscope.model.requests import State
from kvscope.model.splits import Splits, concat

from .scene import MS, moment
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


@pytest.mark.parametrize(("here", "there", "ahead"), [(500, 2, 90), (2, 500, 90), (2, 90, 500), (-40, -2, -9)])
def test_an_aggregator_tells_all_by_its_own_clock(here: int, there: int, ahead: int) -> None:
    """Hours: by how much the clocks of the aggregator, of prefill's host and of decode's are ahead of the truth."""
    rng = random.Random(7)
    fleet = [drawn(rng, number, number * SECOND // 2) for number in range(80)]
    made = [item for cause in fleet for item in ended(cause.number, items(cause))]
    for engine, leg in (("p0", "prefill"), ("d0", "decode")):
        made += [moment({"engine": engine, "leg": leg}, "load", 1000 * second) for second in range(60)]
    true = split(parsed(made))
    events = parsed(
        on_hosts([{**item, "t": int(str(item["t"])) + there * HOUR} for item in made], (ahead - there) * HOUR)
    )
    stream, given, kept = Stream(Limits(), Hosts()), [], list[Events]()
    far = np.array([process.host == "boot-b" for process in events.processes])[events.rows["process"]]
    at = events.rows["t"] - np.where(far, ahead, there) * HOUR
    for second in range(60):
        now = second * SECOND
        asked = [
            Exchange(host, "agg", own, now + here * HOUR + MS, now + here * HOUR + MS, own + MS)
            for host, own in (("boot-a", now + there * HOUR), ("boot-b", now + ahead * HOUR))
        ]
        stream.hosts = stream.hosts.hearing(asked)
        batch = Events(events.rows[(at >= now - SECOND) & (at < now)], events.processes, events.texts)
        kept.append(stream.hosts.moved(batch))
        given += stream.feed(batch, now + here * HOUR)
    found = concat(given)
    assert len(found) == 80, "none has to wait for the end, and none is given up"
    assert found.in_state(State.COMPLETE).all()
    assert compared(true, found) == (80, 80)
    rows = {true.text(row): row for row in range(80)}
    for row in range(80):
        assert abs(found.first_token[row] - true.first_token[rows[found.text(row)]] - here * HOUR) < 5 * MS
    shown = np.concatenate([batch.rows["t"] for batch in kept])
    assert np.abs(np.sort(shown) - np.sort(at[at < 59 * SECOND]) - here * HOUR).max() < 5 * MS


def test_clocks_are_left_alone_unless_they_are_to_be_compared() -> None:
    rng = random.Random(6)
    made = [item for number in range(4) for item in items(drawn(rng, number, number * SECOND))]
    found = concat(_all(parsed(on_hosts(made, HOUR))))
    assert found.clocks == ()


def _all(events: Events) -> list[Splits]:
    stream = Stream(Limits())
    return [*stream.feed(events), *stream.close()]

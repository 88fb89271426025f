"""Requests that a gap between recordings cut."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kvscope.analysis.holding import RESERVED, gather_held
from kvscope.core.critical_path import split
from kvscope.core.stream import Stream
from kvscope.model.events import Events, Gap
from kvscope.model.requests import State

from .scene import D_ID, D_LEG, MS, P_LEG, events_of, moment, moments, push_early

BEGIN, END = 20, 90_000
"""ms: the gap"""


def gapped(items: list[dict[str, Any]], begin: float = BEGIN, end: float = END) -> Events:
    """Items, and the processes with a gap; another engine's request after it tells what time it is."""
    later = moments({"engine": "d0", "leg": "decode", "request": "cmpl-later"}, arrived=END + 1, first_token=END + 90)
    events = events_of([*items, *later])
    gap = Gap(int(begin * MS), int(end * MS), 100)
    return replace(events, processes=tuple(replace(process, gaps=(gap,)) for process in events.processes))


def half() -> list[dict[str, Any]]:
    """The push up to the gap."""
    items = [item for item in push_early() if item["t"] <= BEGIN * MS]
    return [*items, moment(D_LEG, "reserved", 4, blocks=8)]


def test_a_request_that_a_gap_cut_is_incomplete_and_names_what_it_lacks() -> None:
    splits = split(gapped(half()))
    row = [splits.text(row) for row in range(len(splits))].index(D_ID)
    assert splits[row].state is State.INCOMPLETE
    assert {"first_token", "D.scheduled"} <= set(splits[row].missing)
    assert not splits.in_state(State.UNFINISHED).any()


def test_what_it_held_is_not_counted_over_the_gap() -> None:
    assert gather_held(split(gapped(half())), RESERVED, {}).requests == 0
    whole = events_of([*half(), *moments(D_LEG, noticed=END)])
    assert gather_held(split(whole), RESERVED, {}).still == 1


def test_one_that_goes_on_beyond_the_gap_is_judged_as_ever() -> None:
    items = [*half(), *moments(D_LEG, noticed=END + 5)]
    splits = split(gapped(items))
    assert int(splits.in_state(State.UNFINISHED).sum()) == 1
    whole = split(gapped(push_early(), 200, END))
    assert int(whole.in_state(State.COMPLETE).sum()) == 1


def test_a_gap_that_has_not_come_yet_cuts_nothing() -> None:
    splits = split(gapped(half()), BEGIN * MS)
    assert int(splits.in_state(State.UNFINISHED).sum()) >= 1


def test_prefill_alone_is_cut_too() -> None:
    items = moments(P_LEG, arrived=0, taken=1, queued=2, scheduled=5)
    splits = split(gapped(items))
    assert (splits[0].state, splits[0].missing) == (State.INCOMPLETE, ("computed", "first_token"))


def test_a_stream_gives_them_out_once_the_gap_is_over() -> None:
    stream, events = Stream(), gapped(half())
    before = events.rows["t"] <= BEGIN * MS
    bare = tuple(replace(process, gaps=()) for process in events.processes)
    stream.feed(replace(events, rows=events.rows[before], processes=bare))
    _, waiting = stream.look()
    assert len(waiting) == 1
    over, _, waiting = stream.advance(replace(events, rows=events.rows[~before]))
    assert not waiting.in_state(State.UNFINISHED)[waiting.age > 1000 * MS].any()
    given = [splits for splits in (*over, *stream.close()) if len(splits)]
    assert sum(int(splits.in_state(State.INCOMPLETE).sum()) for splits in given) >= 1
    assert stream.held == 0


def test_a_leg_of_which_only_the_end_was_seen_is_over() -> None:
    for leg in (P_LEG, D_LEG):
        splits = split(events_of([*moments(leg, released=3), *moments({**D_LEG, "request": "y"}, arrived=9_000)]))
        row = [splits.text(row) for row in range(len(splits))].index(leg["request"])
        assert not splits.in_state(State.UNFINISHED)[row]
        assert not splits.in_state(State.COMPLETE)[row]

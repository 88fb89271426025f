"""The rules every split keeps, on worlds whose causes are known."""

from __future__ import annotations

import json
import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kvscope.core.critical_path import split
from kvscope.model.events import Events
from kvscope.model.graph import BRANCHES, EDGES, NODE, NODES
from kvscope.model.requests import State, Tally
from kvscope.model.shapes import SHAPE, missing_name
from kvscope.model.splits import COLUMNS, Splits
from kvscope.probe.vocabulary import UNKNOWN
from kvscope.sources.jsonl import parse_jsonl

from .simulator import Cause, causes, fleets, items, simulate

EXAMPLES = settings(max_examples=40, deadline=None)
STAGE = {(edge.to, edge.frm): edge.stage for edge in EDGES}


def events_of(fleet: list[Cause]) -> Events:
    return parse_jsonl(json.dumps(item) for cause in fleet for item in items(cause)).events


def rows_by_number(splits: Splits, fleet: list[Cause]) -> list[int]:
    rows = {splits.text(row): row for row in range(len(splits))}
    assert len(rows) == len(fleet) == len(splits)
    return [rows[f"cmpl-r{cause.number}-0-bbbbbbbb"] for cause in fleet]


def origin(cause: Cause) -> int:
    t = simulate(cause)
    if cause.routed:
        return t["origin"]
    return min(t[node] for node in ("P.arrived", "D.arrived") if node in t)


def same(one: Splits, other: Splits) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in (*COLUMNS, "carves"))


def critical(splits: Splits, row: int) -> set[tuple[str, str]]:
    """Edges on the path."""
    nodes = [NODES[node].name for node in np.flatnonzero(splits.walks[row, 0])]
    return set(zip(nodes[1:], nodes[:-1], strict=True))


@given(fleets())
@EXAMPLES
def test_1_stages_add_up_to_the_time_to_first_token(fleet: list[Cause]) -> None:
    splits = split(events_of(fleet))
    for row, cause in zip(rows_by_number(splits, fleet), fleet, strict=True):
        expected = simulate(cause)["first_token"] - origin(cause)
        assert splits.ttft[row] == expected == splits.exposed[row].sum()
        assert splits.stage("unattributed")[row] == 0
        assert splits[row].shape == cause.shape


@given(fleets())
@EXAMPLES
def test_2_every_instant_of_the_path_has_one_class(fleet: list[Cause]) -> None:
    for request in split(events_of(fleet)):
        begins = [span.begin for span in request.path]
        ends = [span.end for span in request.path]
        assert begins == sorted(begins)
        if request.path:
            assert begins[1:] == ends[:-1]
            assert (begins[0], ends[-1]) == (request.origin, request.first_token)
        assert sum(low for low, _ in request.class_ns.values()) == request.ttft_ns


def there(cause: Cause, t: dict[str, int]) -> int:
    """When the registration had arrived; a parked writer receives it later."""
    return t["registration_sent"] + dict(cause.delays)["registration_received", "registration_sent"]


@given(fleets())
@EXAMPLES
def test_delaying_an_edge_moves_the_first_token_exactly_if_it_is_on_the_path(fleet: list[Cause]) -> None:
    splits = split(events_of(fleet))
    for row, cause in zip(rows_by_number(splits, fleet), fleet, strict=True):
        before, on_path = simulate(cause), critical(splits, row)
        tied = cause.shape == "push" and before["staged"] == there(cause, before)
        for edge, _ in cause.delays:
            moved = simulate(cause.delayed(edge, 1))["first_token"] - before["first_token"]
            if edge[0] == "matched":
                assert moved == 1
            elif not tied and (cause.routed or edge[1] != "origin"):
                frm = "posted" if edge[1] not in before else edge[1]
                frm = "transferred" if edge == ("notified", "transferred") else frm
                assert (moved == 1) == ((edge[0], frm) in on_path), edge


@given(fleets())
@EXAMPLES
def test_3_exposed_and_hidden_are_all_of_a_stage(fleet: list[Cause]) -> None:
    splits = split(events_of(fleet))
    for row, cause in zip(rows_by_number(splits, fleet), fleet, strict=True):
        t, request, whole = simulate(cause), splits[row], dict[str, int]()
        for (to, frm), _ in cause.delays:
            if to == "matched":
                begin, frm = max(t["staged"], t["registration_received"]), "staged"
            else:
                begin = origin(cause) if frm == "origin" else t.get(frm, t.get("posted", 0))
            whole[STAGE[to, frm]] = whole.get(STAGE[to, frm], 0) + t[to] - begin
        got = {name: request.exposed.get(name, 0) + request.hidden.get(name, 0) for name in whole}
        if not (cause.shape == "push" and cause.parked):  # there the wait for the writer counts as flight and match
            assert got == whole


@given(st.lists(st.integers(0, 400), min_size=1, max_size=1), causes(shapes=("push",)))
@EXAMPLES
def test_3_a_hidden_branch_may_come_later_by_its_slack(by: list[int], cause: Cause) -> None:
    request = split(events_of([cause]))[0]
    t = simulate(cause)
    assert set(request.slack_ns) <= set(BRANCHES)
    for branch, (low, high) in request.slack_ns.items():
        assert 0 <= low <= high
        edge = ("registration_sent", "D.handed") if branch == "registration" else ("staged", "P.handed")
        assert simulate(cause.delayed(edge, low))["first_token"] == t["first_token"]
        if branch == "staging":
            assert simulate(cause.delayed(edge, low + 1 + by[0]))["first_token"] == t["first_token"] + 1 + by[0]
        else:
            there = t["registration_sent"] + dict(cause.delays)["registration_received", "registration_sent"]
            assert cause.parked or low <= t["staged"] - there <= high


@given(fleets(most=3), st.randoms(use_true_random=False), st.integers(0, 20))
@EXAMPLES
def test_4_order_and_repetition_leave_no_trace(fleet: list[Cause], rng: random.Random, repeated: int) -> None:
    events = events_of(fleet)
    order = list(range(len(events))) + [rng.randrange(len(events)) for _ in range(repeated)]
    rng.shuffle(order)
    plain, mixed = split(events), split(Events(events.rows[order], events.processes, events.texts))
    assert same(plain, mixed)
    assert mixed.tally.duplicates == repeated
    assert mixed.tally.events == plain.tally.events


@given(causes(), st.data())
@EXAMPLES
def test_5_what_is_missing_is_named(cause: Cause, data: st.DataObject) -> None:
    shape = SHAPE[cause.shape]
    names = [name for name in shape.required if name not in ("transferred", "P.transferred", "first_token")]
    gone = data.draw(st.sampled_from(names))
    kept = [item for item in items(cause) if not _is(item, gone)]
    request = split(parse_jsonl(json.dumps(item) for item in kept).events)[0]
    if cause.shape in ("pull", "push", "return_read") or gone != "D.queued":
        assert request.state is State.INCOMPLETE
        assert missing_name(SHAPE[request.shape], NODE[gone]) in request.missing
    assert request.ttft_ns is None


def _is(item: dict[str, object], node: str) -> bool:
    leg = {"P": "prefill", "D": "decode"}.get(node.split(".")[0]) if "." in node else None
    moment = node.split(".")[-1]
    return item["moment"] == moment and leg in (None, item["leg"])


@given(fleets(), st.data())
@EXAMPLES
def test_6_nothing_is_dropped_in_silence(fleet: list[Cause], data: st.DataObject) -> None:
    """Whatever is lost, every request is in exactly one state, and none of the damaged has a TTFT."""
    events = events_of(fleet)
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=len(events), max_size=len(events))), bool)
    rows = events.rows.copy()
    bad = data.draw(st.integers(0, len(events) - 1))
    rows["moment"][bad] = 255
    kept[bad] = True
    splits = split(Events(rows[kept], events.processes, events.texts))
    assert splits.tally.out_of_bounds == 1
    assert splits.tally.events == kept.sum() - 1
    assert sum(int(splits.in_state(state).sum()) for state in State) == len(splits)
    assert ((splits.ttft != UNKNOWN) <= splits.complete).all()
    for request in splits:
        assert request.last_moment
        assert (request.age_ns is None) == (request.state is not State.UNFINISHED)


def test_nothing_gives_nothing() -> None:
    splits = split(parse_jsonl([]).events)
    assert (len(splits), list(splits), splits.tally) == (0, [], Tally())

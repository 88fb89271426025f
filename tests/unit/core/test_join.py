"""Which legs are one request, and what is said of those that are not."""

from __future__ import annotations

from typing import Any

from kvscope.core.critical_path import split
from kvscope.core.join import base_id, router_id
from kvscope.model.requests import RequestSplit, State

from .scene import D_ID, D_LEG, MS, P_ID, P_LEG, events_of, moment, moments, pull, push_early, push_sequential

Items = list[dict[str, Any]]


def requests(items: Items) -> dict[str, RequestSplit]:
    return {request.request: request for request in split(events_of(items))}


def renamed(items: Items, **names: str) -> Items:
    """The same moments under other ids and engines, and perhaps later."""
    found = []
    for item in items:
        item = dict(item)
        for field in ("request", "peer_request", "remote_request", "engine", "peer_engine", "engine_id"):
            if item.get(field) in names:
                item[field] = names[item[field]]
        found.append(item)
    return found


def later(items: Items, ms: int) -> Items:
    shifted = [{**item, "t": item["t"] + ms * MS} for item in items]
    return [{**item, "looked": item["looked"] + ms * MS} if "looked" in item else item for item in shifted]


def test_ids() -> None:
    assert base_id("cmpl-x-0-0a1b2c3d") == "cmpl-x-0"
    assert base_id("cmpl-x-0") == "cmpl-x-0"
    assert [router_id(text) for text in ("cmpl-x-1-3-0a1b2c3d", "chatcmpl-x-0a1b2c3d", "1_cmpl-x-0-0a1b2c3d", "x")] == [
        "x-1",
        "x",
        "x",
        "x",
    ]


def test_the_same_id_on_both_legs_is_one_request() -> None:
    items = renamed(push_early(), **{P_ID: "same", D_ID: "same"})
    assert [(r.request, r.complete) for r in split(events_of(items))] == [("same", True)]


def test_the_same_ids_on_another_pair_of_engines_are_another_request() -> None:
    """An id means something on one engine only."""
    first = [{**i, "peer_engine": "d0"} if i["moment"] == "matched" else i for i in push_early()]
    items = first + later(renamed(first, p0="p1", d0="d1"), 50)
    found = list(split(events_of(items)))
    assert [(r.prefill_engine, r.decode_engine, r.ttft_ns) for r in found] == [
        ("p0", "d0", 136 * MS),
        ("p1", "d1", 136 * MS),
    ]


def test_without_a_named_engine_an_ambiguous_id_is_refused_and_counted() -> None:
    items = push_early() + later(renamed(push_early(), p0="p1", d0="d1"), 50)
    splits = split(events_of(items))
    assert splits.tally.ambiguous > 0
    assert not splits.complete.any()


def test_a_restarted_engine_is_another_engine() -> None:
    """Moments of an engine before and after its restart are never one request."""
    items = [{**i, "engine_id": "one"} if i["engine"] == "d0" else i for i in push_early()]
    crashed = [i for i in items if i["engine"] == "p0" or i["t"] < 100 * MS]
    again = [{**i, "engine_id": "two"} for i in items if i["engine"] == "d0" and i["t"] >= 100 * MS]
    found = split(events_of(crashed + again))
    assert not found.complete.any()
    assert len(found.engines) == 3


def test_a_role_is_the_legs_never_the_engines() -> None:
    """Two engines that each prefill for the other."""
    there = renamed(pull(), **{P_ID: "q-aaaaaaaa", D_ID: "q-bbbbbbbb", "p0": "d0", "d0": "p0"})
    found = list(split(events_of(pull() + there)))
    assert [(r.prefill_engine, r.decode_engine, r.complete) for r in found] == [("p0", "d0", True), ("d0", "p0", True)]


def test_children_of_one_prompt_share_its_prefill_and_it_counts_once() -> None:
    child = renamed([item for item in pull() if item["leg"] == "decode"], **{D_ID: "1_" + D_ID})
    splits = split(events_of(pull() + later(child, 3)))
    assert splits.complete.all()
    assert sorted(r.ttft_ns or 0 for r in splits) == [140 * MS, 143 * MS]
    assert [r.pinned_ns for r in splits].count(None) == 1
    assert all("shared_prefill" in r.marks for r in splits)


def test_a_stale_match_is_marked_and_the_retry_stays_alone() -> None:
    """Prefill matched the registration of an attempt that its client had given up."""
    retry_id = "cmpl-x-0-cccccccc"
    given_up = [i for i in push_early() if i["leg"] == "decode" and i["t"] <= 5 * MS]
    given_up.append(moment(D_LEG, "finished", 60, reason="abort"))
    retry = later(renamed([i for i in given_up if i["moment"] != "finished"], **{D_ID: retry_id}), 70)
    prefill = [i for i in push_early() if i["leg"] == "prefill"]
    found = requests(given_up + retry + prefill)
    assert "stale_match" in found[D_ID].marks
    assert found[D_ID].shape == "aborted"
    assert found[retry_id].state is State.UNFINISHED
    assert "retried" in found[retry_id].marks
    assert split(events_of(given_up + retry + prefill)).tally.stale_matches == 1


def test_a_hung_push_is_unfinished_with_its_age_and_last_moment() -> None:
    hung = [i for i in push_early() if i["leg"] == "decode" and i["t"] <= 5 * MS]
    clock = moment({"engine": "p0", "leg": "engine"}, "load", 5000, waiting=0)
    request = requests([*hung, clock])[D_ID]
    assert request.state is State.UNFINISHED
    assert request.last_moment == "decode registration_sent"
    assert (request.age_ns, request.idle_ns) == (4998 * MS, 4995 * MS)
    assert request.ttft_ns is None


def test_a_leg_whose_peer_is_not_instrumented_counts_in_its_own_stages() -> None:
    decode = [i for i in push_early() if i["leg"] == "decode"]
    decode = [{**i, "peer_engine": "dark"} if i["moment"] == "registration_sent" else i for i in decode]
    request = requests(decode)[D_ID]
    assert (request.state, request.ttft_ns) == (State.ONE_LEGGED, None)
    assert request.exposed["decode_run"] == 10 * MS
    prefill = [i for i in push_early() if i["leg"] == "prefill"]
    prefill = [{**i, "peer_engine": "dark"} if i["moment"] == "matched" else i for i in prefill]
    request = requests(prefill)[P_ID]
    assert (request.state, request.ttft_ns) == (State.ONE_LEGGED, None)
    assert request.exposed["prefill_run"] == 100 * MS


def test_an_orphaned_prefill_is_unmatched() -> None:
    splits = split(events_of([i for i in push_early() if i["leg"] == "prefill" and i["moment"] != "matched"]))
    assert [(r.shape, r.state) for r in splits] == [("prefill_only", State.UNMATCHED)]
    assert splits.tally.strays == 0


def test_base_ids_join_where_no_moment_does() -> None:
    """A prefix hit: nothing was reserved for a transfer, nothing matched."""
    hit = [
        *moments(P_LEG, arrived=0, taken=1, queued=2, scheduled=5, computed=105, handed=107, staged=108),
        *moments(D_LEG, arrived=110, taken=111, scheduled=115, first_token=120),
        moment(D_LEG, "queued", 112, remote_request=P_ID, peer_engine="p0"),
    ]
    request = requests(hit)[D_ID]
    assert (request.shape, request.complete, request.ttft_ns) == ("prefix_hit", True, 120 * MS)
    assert request.exposed["decode_admission"] == 3 * MS
    assert "wire" not in request.exposed
    elsewhere = [{**i, "peer_engine": "p7"} if i["moment"] == "queued" and i["leg"] == "decode" else i for i in hit]
    assert not any(r.complete for r in requests(elsewhere).values())


def test_no_handoff_is_a_shape_and_has_no_transfer() -> None:
    items = [
        *moments(P_LEG, arrived=0, taken=1, queued=2, scheduled=5, computed=105),
        *moments(D_LEG, arrived=110, taken=111, queued=112, scheduled=115, first_token=220),
    ]
    request = requests(items)[D_ID]
    assert (request.shape, request.complete, request.ttft_ns) == ("no_handoff", True, 220 * MS)
    assert request.exposed["dispatch"] == 5 * MS
    assert request.transfer_bounds_ns == (0, 0)
    assert request.reserved_idle_ns is None


def test_a_router_belongs_to_the_request_it_named() -> None:
    router = {"engine": "router", "leg": "router", "request": "x"}
    told = moments(router, received=-2, prefill_sent=-1, prefill_returned=106, decode_sent=108)
    request = requests(push_sequential() + told)[D_ID]
    assert request.ttft_ns == 149 * MS
    assert request.exposed["router"] == 2 * MS
    assert request.dispatch_parts == {"reply": 1 * MS, "router_hold": 2 * MS, "hop": 2 * MS}
    assert request.exposed["dispatch"] == 5 * MS
    unknown = moments({**router, "request": "y"}, received=0)
    assert split(events_of(push_sequential() + unknown)).tally.strays == 1


def test_the_routers_account_tells_that_decode_knew() -> None:
    router = {"engine": "router", "leg": "router", "request": "x"}
    blind = [{k: v for k, v in item.items() if k != "remote_request"} for item in push_sequential()]
    told = moments(router, received=0, prefill_returned=106, decode_sent=108)
    assert requests(blind)[D_ID].knew_peer is False
    assert requests(blind + told)[D_ID].knew_peer is True


def _spaced(attempts: int) -> Items:
    return [item for number in range(attempts) for item in later(push_early(), number * 1000)]


def test_an_id_that_is_used_again_is_another_request() -> None:
    """Engines can be told not to make ids their own; a router may give one twice."""
    router = [moment({"engine": "r", "leg": "router", "request": "x"}, "received", ms) for ms in (-1, 999)]
    found = list(split(events_of(_spaced(2) + router)))
    assert [(r.request, r.complete, r.ttft_ns) for r in found] == [(D_ID, True, 137 * MS)] * 2
    assert [len(r.path) for r in found] == [16, 16]

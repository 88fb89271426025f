"""What is unusual about a request stands in its trace, and nothing is made up."""

from __future__ import annotations

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from kvscope.core.critical_path import split
from kvscope.export.otlp.attributes import ATTRIBUTES, attributes_of
from kvscope.sources.opening import open_all

from ..core.scene import D_LEG, MS, P_ID, pull, push_early
from ..core.unusual import failed_and_aborted
from .spans import WALL, grown, only, root_of, roots, told


def test_a_worked_example_to_the_nanosecond() -> None:
    spans, _ = grown(push_early())
    root = only(spans)
    assert told(root)["kvscope.ttft_ns"] == 136 * MS
    assert told(root)["gen_ai.server.time_to_first_token"] == pytest.approx(0.136)
    assert root.start_time_unix_nano == WALL
    classes = ("frontend", "compute_wait", "compute_run", "coordination", "transfer", "undetermined")
    assert sum(told(root)[f"kvscope.ttft.{name}_ns"] for name in classes) == 136 * MS
    assert (told(root)["kvscope.slack.registration_low_ns"], told(root)["kvscope.slack.registration_high_ns"]) == (
        4 * MS,
        103 * MS,
    )
    hidden = {span.name for _, span in spans if told(span).get("kvscope.hidden")}
    assert hidden == {"dispatch", "frontend", "decode_admission", "registration_handoff", "registration_flight"}
    assert not told(root)["kvscope.ended"], "decode's end was not seen"
    assert root.end_time_unix_nano == WALL + 136 * MS, "the latest moment that was seen"


def test_what_is_unfinished_has_no_first_token_and_ends_where_it_stands() -> None:
    items = [item for item in pull() if item["t"] <= 118 * MS or item["moment"] == "released"]
    spans, _ = grown(items)
    root = only(spans)
    assert told(root)["kvscope.state"] == "unfinished"
    assert "kvscope.ttft_ns" not in told(root)
    assert "gen_ai.server.time_to_first_token" not in told(root)
    assert not told(root)["kvscope.ended"]
    assert told(root)["kvscope.last_moment"] == "prefill released"
    assert root.end_time_unix_nano == WALL + 150 * MS
    assert "first_token" not in {event.name for event in root.events}


def test_a_missing_moment_is_named() -> None:
    root = only(grown([item for item in pull() if item["moment"] != "posted"])[0])
    assert told(root)["kvscope.state"] == "incomplete"
    assert told(root)["kvscope.missing"] == ["posted"]
    assert "kvscope.ttft_ns" not in told(root)
    assert told(root)["kvscope.ended"]


def test_a_failure_is_an_error_and_an_event_of_its_leg() -> None:
    spans, _ = grown(failed_and_aborted("x", 0))
    root = only(spans)
    assert told(root)["kvscope.shape"] == "failed"
    assert told(root)["error.type"] == "read_expired"
    assert (root.status.code, root.status.message) == (Status.STATUS_CODE_ERROR, "read_expired")
    ((service, leg),) = ((name, span) for name, span in spans if span.name == "prefill")
    assert service == "p0"
    assert [(event.name, event.time_unix_nano, told_of(event)) for event in leg.events] == [
        ("failed", WALL + 4 * MS, {"kvscope.reason": "read_expired"})
    ]


def told_of(event: Span.Event) -> dict[str, str]:
    return {each.key: each.value.string_value for each in event.attributes}


def test_children_of_one_prompt_share_its_prefill_leg() -> None:
    other = {**D_LEG, "request": "1_cmpl-x-0-cccccccc"}
    first = {**D_LEG, "request": "0_cmpl-x-0-bbbbbbbb"}
    items = [item for item in pull() if item["leg"] == "prefill"]
    for mine in (first, other):
        items += [item | {"request": mine["request"]} for item in pull() if item["leg"] == "decode"]
    spans, _ = grown(items)
    one, two = roots(spans)
    assert one.trace_id == two.trace_id, "one X-Request-Id is one trace"
    ((service, prefill),) = ((name, span) for name, span in spans if span.name == "prefill")
    assert (service, prefill.parent_span_id) == ("p0", one.span_id)
    assert not one.links
    (link,) = two.links
    assert (link.trace_id, link.span_id) == (prefill.trace_id, prefill.span_id)
    for root in (one, two):
        path = [span for _, span in spans if root_of(span, spans) is root and told(span).get("kvscope.hidden") is False]
        assert sum(span.end_time_unix_nano - span.start_time_unix_nano for span in path) == 140 * MS
        assert told(root)["kvscope.ttft_ns"] == 140 * MS


@pytest.mark.parametrize("leg", ["prefill", "decode"])
def test_a_leg_alone_comes_to_the_same_trace(leg: str) -> None:
    whole = only(grown(pull())[0])
    spans, _ = grown([item for item in pull() if item["leg"] == leg])
    root = only(spans)
    assert root.trace_id == whole.trace_id
    assert told(root)["kvscope.state"] in ("unmatched", "one_legged", "incomplete")
    assert {span.name for _, span in spans if told(span).get("kvscope.leg")} == {leg}


def test_legs_on_clocks_that_nothing_aligned_are_each_at_their_own_time_of_day() -> None:
    """Decode's host began an hour after prefill's; the clocks on the wall agree."""
    hour = 3600 * 1000 * MS
    items = pull()
    for item in items:
        item["host"] = item["engine"]
        if item["moment"] == "arrived":
            item["wall_ns"] = WALL + item["t"]
        item["t"] -= hour if item["leg"] == "decode" else 0
    spans, _ = grown(items, None)
    root = only(spans)
    assert told(root)["kvscope.state"] == "unaligned"
    assert "kvscope.ttft_ns" not in told(root)
    assert root.start_time_unix_nano == WALL
    assert root.end_time_unix_nano == WALL + 240 * MS
    legs = {span.name: span.start_time_unix_nano - WALL for _, span in spans if told(span).get("kvscope.leg")}
    assert legs == {"prefill": 0, "decode": 110 * MS}
    for _, span in spans:
        assert span.start_time_unix_nano <= span.end_time_unix_nano <= WALL + 240 * MS


def test_an_id_that_is_used_again_has_spans_of_its_own() -> None:
    again = [item | {"t": item["t"] + 1000 * MS} for item in pull()]
    spans, _ = grown(pull() + again)
    assert len(roots(spans)) == 2
    assert len({span.span_id for _, span in spans}) == len(spans)


def test_the_time_of_day_follows_the_clock_that_arrivals_read() -> None:
    """A clock that was set by a minute between two requests."""
    minute = 60 * 1000 * MS
    later = [item | {"t": item["t"] + 10_000 * MS, "request": item["request"].replace("x", "y")} for item in pull()]
    for item in later:
        if item["moment"] == "arrived":
            item["wall_ns"] = item["t"] + WALL + minute
        if "peer_request" in item or "remote_request" in item:
            item |= {name: P_ID.replace("x", "y") for name in ("peer_request", "remote_request") if name in item}
    first, second = sorted(root.start_time_unix_nano for root in roots(grown(pull() + later)[0]))
    assert (first, second) == (WALL, WALL + 10_000 * MS + minute)


def test_without_a_time_of_day_there_is_no_span() -> None:
    spans, trees = grown(pull(), None)
    assert not spans
    assert (trees.requests, trees.timeless) == (0, 1)


@pytest.mark.parametrize("wall", [-(2**62), -(241 * MS), 2**63 - 1 - 239 * MS])
def test_a_time_of_day_that_no_span_can_have_leaves_its_request_out(wall: int) -> None:
    spans, trees = grown(pull(), wall)
    assert not spans
    assert (trees.requests, trees.timeless, trees.impossible) == (0, 0, 1)


@pytest.mark.parametrize("wall", [0, 2**63 - 1 - 240 * MS])
def test_the_first_and_the_last_time_of_day_are_written(wall: int) -> None:
    spans, trees = grown(pull(), wall)
    assert (trees.requests, trees.impossible) == (1, 0)
    assert only(spans).start_time_unix_nano == wall


def test_text_that_cannot_be_sent_is_replaced() -> None:
    items = [item | {"request": item["request"].replace("x", "\ud800")} for item in failed_and_aborted("x", 0)]
    assert "?" in told(only(grown(items)[0]))["kvscope.request"]


def test_every_attribute_is_told_of_some_request() -> None:
    """The table holds nothing that is never said, but what takes several ranks or a mark."""
    found: set[str] = set()
    for name in ("push-early", "pull"):
        splits = split(open_all([f"docs/pictures/{name}.kvs"], None).events)
        found |= {each.key for attributes in attributes_of(splits) for each in attributes}
    for items in (failed_and_aborted("x", 0), pull()[:4]):
        found |= told(only(grown(items)[0])).keys() - {"kvscope.ended"}
    assert ATTRIBUTES.keys() - found == {"kvscope.rank_spread_ns", "kvscope.marks"}
    assert found <= ATTRIBUTES.keys()

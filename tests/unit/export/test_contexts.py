"""Requests in traces that somebody else began: the root lies under the span that was told."""

from __future__ import annotations

from typing import Any

import pytest

from kvscope.export.otlp.identity import context_of, span_id

from ..core.scene import pull
from .spans import Items, grown, only

TRACE, OTHER = "0af7651916cd43dd8448eb211c80319c", "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN, NEXT = "b7ad6b7169203331", "00f067aa0ba902b7"


def parent(trace: str = TRACE, span: str = SPAN, flags: str = "01") -> str:
    return f"00-{trace}-{span}-{flags}"


def queued_under(items: Items, **legs: str) -> Items:
    for item in items:
        if item["moment"] == "queued" and item["leg"] in legs:
            item["traceparent"] = legs[item["leg"]]
    return items


def router(**more: Any) -> dict[str, Any]:
    return {"t": 0, "moment": "received", "engine": "r", "leg": "router", "request": "x", **more}


def test_without_any_the_trace_is_made_of_the_id_and_has_no_parent() -> None:
    spans, trees = grown(pull())
    assert not only(spans).parent_span_id
    assert only(spans).flags == 0x101
    assert trees.joined == 0


def test_the_root_lies_under_the_span_that_vllm_was_told() -> None:
    spans, trees = grown(queued_under(pull(), prefill=parent(), decode=parent()))
    root = only(spans)
    assert (root.trace_id.hex(), root.parent_span_id.hex(), root.flags) == (TRACE, SPAN, 0x301)
    assert {span.trace_id.hex() for _, span in spans} == {TRACE}
    assert not any(span.links for _, span in spans)
    assert trees.joined == 1


def test_legs_under_spans_of_their_own_say_so() -> None:
    """As behind a proxy that traces each call: the root lies under decode's, prefill's leg is linked to its own."""
    spans, _ = grown(queued_under(pull(), prefill=parent(span=NEXT), decode=parent()))
    assert only(spans).parent_span_id.hex() == SPAN
    legs = {span.name: [(link.trace_id.hex(), link.span_id.hex()) for link in span.links] for _, span in spans}
    assert (legs["prefill"], legs["decode"]) == ([(TRACE, NEXT)], [])


def test_what_a_router_had_open_comes_first() -> None:
    items = [router(traceparent=parent(OTHER, NEXT)), *queued_under(pull(), prefill=parent(), decode=parent())]
    spans, _ = grown(items)
    root = only(spans)
    assert (root.trace_id.hex(), root.parent_span_id.hex()) == (OTHER, NEXT)
    links = {link.span_id.hex() for _, span in spans for link in span.links}
    assert links == {SPAN}


def test_prefills_counts_where_decode_was_told_none() -> None:
    root = only(grown(queued_under(pull(), prefill=parent(flags="00")))[0])
    assert (root.parent_span_id.hex(), root.flags) == (SPAN, 0x300)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        parent("0" * 32),
        parent(span="0" * 16),
        parent(TRACE.upper()),
        "ff" + parent()[2:],
        parent() + "x",
        parent()[:-1],
    ],
)
def test_what_is_no_traceparent_is_not_taken_for_one(text: str) -> None:
    assert context_of(text) is None
    if text:
        assert not only(grown(queued_under(pull(), decode=text))[0]).parent_span_id


def test_a_later_version_of_the_header_is_read_as_far_as_it_is_known() -> None:
    found = context_of("cc" + parent()[2:] + "-more")
    assert found
    assert (found.trace.hex(), found.span.hex(), found.flags) == (TRACE, SPAN, 1)


def test_no_span_has_an_id_of_zeros() -> None:
    assert span_id(0, 0) == (1).to_bytes(8, "big")

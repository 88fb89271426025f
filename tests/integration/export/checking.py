"""Whether the spans that arrived are what a recording says of each request."""

from __future__ import annotations

from collections import defaultdict

from kvscope.model.requests import RequestSplit

from .collector import Arrived


def traces(spans: list[Arrived]) -> dict[bytes, dict[bytes, Arrived]]:
    """trace -> span id -> span"""
    found: dict[bytes, dict[bytes, Arrived]] = defaultdict(dict)
    for each in spans:
        assert each.span.span_id not in found[each.span.trace_id], "an id of its own for each"
        found[each.span.trace_id][each.span.span_id] = each
    return found


def root_of(trace: dict[bytes, Arrived]) -> Arrived:
    (root,) = (each for each in trace.values() if not each.span.parent_span_id)
    return root


def check_tree(trace: dict[bytes, Arrived], requests: dict[str, RequestSplit]) -> str:
    """One trace is one request, whole; returns which."""
    root = root_of(trace)
    attributes = root.attributes
    request = requests[str(attributes["kvscope.request"])]
    assert request.ttft_ns
    assert request.origin
    assert attributes["kvscope.ttft_ns"] == request.ttft_ns
    assert attributes["gen_ai.server.time_to_first_token"] == request.ttft_ns / 1e9
    assert attributes["gen_ai.usage.input_tokens"] == request.prompt_tokens
    assert attributes["kvscope.state"] == "complete"
    assert root.resource["service.name"] == request.decode_engine
    legs = {each.span.name: each for each in trace.values() if "kvscope.leg" in each.attributes}
    assert set(legs) == {"prefill", "decode"}
    assert all(leg.span.parent_span_id == root.span.span_id for leg in legs.values())
    assert legs["prefill"].resource["service.name"] == request.prefill_engine
    shift = root.span.start_time_unix_nano - request.origin
    check_stages(trace, root, legs, request, shift)
    return request.request


def check_stages(
    trace: dict[bytes, Arrived], root: Arrived, legs: dict[str, Arrived], request: RequestSplit, shift: int
) -> None:
    """What the recording says of each stage, no more and no less; those on the path add up, to the nanosecond."""
    stages = [each for each in trace.values() if "kvscope.class" in each.attributes]
    found = sorted(
        (
            each.span.name,
            each.span.start_time_unix_nano - shift,
            each.span.end_time_unix_nano - shift,
            each.attributes["kvscope.ended_by"],
            bool(each.attributes["kvscope.hidden"]),
        )
        for each in stages
    )
    spans = (*request.path, *request.hidden_spans)
    assert found == sorted((each.stage, each.begin, each.end, each.ended_by, not each.exposed) for each in spans)
    path = [each.span for each in stages if not each.attributes["kvscope.hidden"]]
    assert sum(span.end_time_unix_nano - span.start_time_unix_nano for span in path) == request.ttft_ns
    parents = {leg.span.span_id: leg.span for leg in legs.values()}
    for span in (each.span for each in stages):
        if span.parent_span_id == root.span.span_id:
            continue
        leg = parents[span.parent_span_id]
        assert leg.start_time_unix_nano <= span.start_time_unix_nano
        assert span.end_time_unix_nano <= leg.end_time_unix_nano

"""What Dynamo and llm-d tell of a request says the same as what our own router told of it."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvscope.analysis.setup import gather_setup
from kvscope.core.critical_path import split
from kvscope.model.errors import InputError
from kvscope.model.requests import RequestSplit
from kvscope.sources.opening import Opened, open_all
from kvscope.sources.past import open_past

from ..core.scene import MS, pull
from .routers_written import (
    dynamo_lines,
    dynamo_record,
    llmd_spans,
    otlp_json,
    router_moments,
    span_id,
    trace_id,
    without_router,
)

REAL = Path("docs/pictures/push-early.kvs")
CLOCK_NS = 20_000
"""How far two readings of a host's clocks may lie apart."""
WALL = 1_800_000_000_000_000_000


@pytest.fixture(scope="module")
def real() -> Opened:
    return open_all([REAL], None)


@pytest.fixture
def engines(tmp_path: Path) -> Path:
    return without_router(REAL, tmp_path / "engines.kvs")


def requests(opened: Opened) -> dict[str, RequestSplit]:
    return {request.request: request for request in split(opened.events)}


def written(path: Path, lines: list[str]) -> Path:
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress("\n".join(lines).encode()))
    else:
        path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("name", ["dynamo.jsonl", "dynamo.000000.jsonl.gz", "enveloped.jsonl"])
def test_dynamos_trace_says_the_same_to_the_millisecond(name: str, real: Opened, engines: Path, tmp_path: Path) -> None:
    told = router_moments(real.events)
    path = written(tmp_path / name, list(dynamo_lines(told, enveloped=name.startswith("env"))))
    opened = open_all([engines, path], None)
    expected, found = requests(real), requests(opened)
    assert found.keys() == expected.keys()
    for each, mine in found.items():
        assert (mine.state, mine.shape) == (expected[each].state, expected[each].shape)
        assert mine.ttft_ns is not None
        longer = mine.ttft_ns - (expected[each].ttft_ns or 0)
        assert -CLOCK_NS <= longer <= MS + CLOCK_NS
        same = {name: ns for name, ns in mine.exposed.items() if name not in ("router", "dispatch")}
        assert same == {name: ns for name, ns in expected[each].exposed.items() if name not in ("router", "dispatch")}
        assert {stamp.moment for stamp in mine.stamps if stamp.leg == "router"} == {
            *("received", "prefill_sent", "prefill_returned", "first_byte")
        }
    (note,) = opened.notes
    assert note.startswith(
        f"{path}: 63 of 63 requests of dynamo's found among the engines'; its times are up to 1 ms early"
    )
    assert "its clock is at most" in note


@pytest.mark.parametrize("version", ["0.8", "0.10"])
def test_llmds_spans_say_the_same(version: str, real: Opened, engines: Path, tmp_path: Path) -> None:
    told = router_moments(real.events)
    lines = [otlp_json(llmd_spans(name, moments, version)) for name, moments in told.items()]
    opened = open_all([engines, written(tmp_path / "spans.json", lines)], None)
    expected, found = requests(real), requests(opened)
    assert found.keys() == expected.keys()
    for each, mine in found.items():
        assert abs((mine.ttft_ns or 0) - (expected[each].ttft_ns or 0)) < CLOCK_NS
        assert mine.knew_peer == expected[each].knew_peer
        assert mine.dispatch_parts.keys() == expected[each].dispatch_parts.keys()
        for part, ns in mine.dispatch_parts.items():
            assert abs(ns - expected[each].dispatch_parts[part]) < CLOCK_NS
    (note,) = opened.notes
    assert "63 of 63 requests of llm-d's found" in note


def test_the_setup_names_the_router_and_takes_it_for_no_engine(real: Opened, engines: Path, tmp_path: Path) -> None:
    name, moments = next(iter(router_moments(real.events).items()))
    path = written(tmp_path / "spans.json", [otlp_json(llmd_spans(name, moments))])
    setup = gather_setup(open_all([engines, path], None).events.processes)
    assert [router["name"] for router in setup.routers] == ["llm-d"]
    assert setup.routers[0]["version"] == "v0.10.0"
    assert "llm-d" not in setup.engines + setup.silent


def test_bit_by_bit_it_is_the_same(real: Opened, engines: Path, tmp_path: Path) -> None:
    path = written(tmp_path / "dynamo.jsonl", list(dynamo_lines(router_moments(real.events))))
    opened = open_all([path, engines], None)
    past = open_past([path, engines], lambda share: None)
    try:
        events = past.between(past.begin - 1, past.end)
    finally:
        past.close()
    names = ["t", "request", "moment", "leg"]
    assert sorted(events.rows[names].tolist()) == sorted(opened.events.rows[names].tolist())
    assert past.notes == opened.notes


def scene() -> list[dict[str, Any]]:
    """A pull whose arrivals tell the time of day."""
    items = pull()
    for item in items:
        if item["moment"] == "arrived":
            item["wall_ns"] = WALL + item["t"]
    return items


def lines(items: list[dict[str, Any]]) -> list[str]:
    return [json.dumps(item) for item in items]


SENT = {
    "received": WALL - 2 * MS,
    "prefill_sent": WALL - MS,
    "prefill_returned": WALL + 106 * MS,
    "decode_sent": WALL + 109 * MS,
    "first_byte": WALL + 142 * MS,
}


def test_a_request_under_another_id_is_found_by_the_span_that_its_engine_was_told(tmp_path: Path) -> None:
    """Behind a gateway the proxy's id is not the one that vLLM sees."""
    items = scene()
    for item in items:
        if item["moment"] == "queued":
            part = f"{item['leg']} client"
            item["traceparent"] = f"00-{trace_id('x')}-{span_id('x', part)}-01"
    engines = written(tmp_path / "engines.jsonl", lines(items))
    # The trace holds another request, too: the trace alone would not tell.
    spans = [*llmd_spans("x", SENT, known=False), *other_request_in_the_trace()]
    opened = open_all([engines, written(tmp_path / "spans.json", [otlp_json(spans)])], None)
    (request,) = split(opened.events)
    assert request.ttft_ns == 142 * MS
    assert request.dispatch_parts == {"reply": 1 * MS, "router_hold": 3 * MS, "hop": 1 * MS}
    assert any("1 of 2 requests of llm-d's found" in note for note in opened.notes)


def other_request_in_the_trace() -> list[dict[str, Any]]:
    later = {moment: t + 500 * MS for moment, t in SENT.items()}
    spans = llmd_spans("other", later)
    for span in spans:
        span["traceId"] = trace_id("x")
    return spans


def test_a_request_that_went_to_decode_alone_is_found_by_its_trace(tmp_path: Path) -> None:
    items = [item for item in scene() if item["leg"] == "decode" and item["moment"] not in ("reserved", "ready")]
    for item in items:
        item.pop("remote_request", None)
        if item["moment"] == "queued":
            item["traceparent"] = f"00-{trace_id('x')}-{'ab' * 8}-01"
    spans = [span for span in llmd_spans("x", SENT) if "prefill" not in span["name"] and "decode" not in span["name"]]
    engines = written(tmp_path / "engines.jsonl", lines(items))
    opened = open_all([engines, written(tmp_path / "spans.json", [otlp_json(spans)])], None)
    (request,) = split(opened.events)
    assert request.origin == -2 * MS


def test_hosts_have_clocks_of_their_own(tmp_path: Path) -> None:
    """Two pairs on two hosts, which began at different times."""
    items, hour = scene(), 3600_000 * MS
    for item in scene():
        moved = {**item, "t": item["t"] - hour, "host": "two", "engine": f"other-{item['engine']}"}
        for name in ("request", "peer_request", "remote_request"):
            if name in moved:
                moved[name] = moved[name].replace("x", "y")
        if "peer_engine" in moved:
            moved["peer_engine"] = f"other-{moved['peer_engine']}"
        items.append(moved)
    items = [{"host": "one", **item} for item in items]
    engines = written(tmp_path / "engines.jsonl", lines(items))
    log = written(tmp_path / "dynamo.jsonl", list(dynamo_lines({"x": SENT, "y": SENT})))
    found = requests(open_all([engines, log], None))
    assert [request.ttft_ns for request in found.values()] == [142 * MS, 142 * MS]


@pytest.mark.parametrize(("shift", "said"), [(40, "at least 39.000 ms ahead"), (-40, "at least 38.000 ms behind")])
def test_a_clock_that_cannot_be_right_is_told(shift: int, said: str, tmp_path: Path) -> None:
    told = {"x": {moment: t + shift * MS for moment, t in SENT.items()}}
    engines = written(tmp_path / "engines.jsonl", lines(scene()))
    opened = open_all([engines, written(tmp_path / "dynamo.jsonl", list(dynamo_lines(told)))], None)
    assert any(said in note for note in opened.notes)


def test_what_is_not_among_the_engines_is_counted(tmp_path: Path) -> None:
    engines = written(tmp_path / "engines.jsonl", lines(scene()))
    log = written(tmp_path / "dynamo.jsonl", list(dynamo_lines({"x": SENT, "stranger": SENT, "other": SENT})))
    opened = open_all([engines, log], None)
    assert any("1 of 3 requests of dynamo's found among the engines'" in note for note in opened.notes)
    assert len(split(opened.events)) == 1


def test_what_dynamo_did_not_tell_is_not_made_up(tmp_path: Path) -> None:
    bare = dynamo_record("x", SENT)
    bare["request"] = {"request_id": "x", "output_tokens": 4, "request_received_ms": SENT["received"] // MS}
    one = dynamo_record("y", SENT, kv_transfer_estimated_latency_ms=None, worker={"decode_worker_id": 1})
    two = dynamo_record("z", SENT, kv_transfer_estimated_latency_ms=None)
    tool = {"schema": "dynamo.request.trace.v1", "event_type": "tool_end", "tool": {}}
    engines = written(tmp_path / "engines.jsonl", lines(three(scene())))
    log = written(tmp_path / "dynamo.jsonl", lines([bare, one, two, tool]))
    opened = open_all([engines, log], None)
    stamps = {
        request.request.split("-")[1]: {stamp.moment for stamp in request.stamps if stamp.leg == "router"}
        for request in split(opened.events)
    }
    assert stamps == {
        "x": {"received"},
        "y": {"received", "decode_sent", "first_byte"},
        "z": {"received", "prefill_sent"},
    }
    assert any("1 record of tools and payloads left out" in note for note in opened.notes)
    assert any("1 request without times but that of receipt" in note for note in opened.notes)


def three(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same request under three ids."""
    names = ("request", "peer_request", "remote_request")
    return [
        {**item, **{name: item[name].replace("x", letter) for name in names if name in item}}
        for letter in "xyz"
        for item in items
    ]


def test_without_a_time_of_day_nothing_can_be_placed(tmp_path: Path) -> None:
    engines = written(tmp_path / "engines.jsonl", lines(pull()))
    opened = open_all([engines, written(tmp_path / "dynamo.jsonl", list(dynamo_lines({"x": SENT})))], None)
    assert any("0 of 1 request" in note for note in opened.notes)
    assert len(split(opened.events)) == 1


def test_a_trace_that_is_still_written_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    told = {f"x{number}": SENT for number in range(2000)} | {"x": SENT}
    packed = gzip.compress("\n".join(dynamo_lines(dict(reversed(told.items())))).encode())
    path = tmp_path / "dynamo.jsonl.gz"
    path.write_bytes(packed[: len(packed) // 2])
    opened = open_all([written(tmp_path / "engines.jsonl", lines(scene())), path], None)
    assert any("was not ended" in note for note in opened.notes)
    assert any("1 of " in note for note in opened.notes)


GOOD = json.dumps(dynamo_record("x", SENT))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (GOOD.replace("trace.v1", "trace.v2"), 'is of schema "dynamo.request.trace.v2"; this kvscope reads'),
        (GOOD + "\n{", ":2 is not JSON"),
        (GOOD + "\n[]", ":2 is of schema null"),
        (GOOD.replace('"request_id": "x"', '"request_id": ""'), '"request_id" must be a non-empty text'),
        (GOOD.replace('"request": {', '"asked": {'), 'has no "request"'),
        (GOOD.replace("request_received_ms", "request_received"), '"request_received_ms" is missing'),
        (GOOD.replace('"ttft_ms": ', '"ttft_ms": -'), '"ttft_ms" is -'),
        (GOOD.replace('"ttft_ms": ', '"ttft_ms": true, "x": '), '"ttft_ms" is true'),
        (GOOD.replace('"ttft_ms": ', '"ttft_ms": 1e300, "x": '), '"ttft_ms" is 1e+300'),
        (GOOD + "\n\udcff", "is not UTF-8"),
        ('{"resourceSpans": 3}', '"resourceSpans" is no list of objects'),
        ('{"resourceSpans": []}', "holds no span of llm-d's routing proxy"),
        ('{"resourceSpans": []}\n{"resour', ":2 is not JSON"),
        (otlp_json(llmd_spans("x", SENT)).replace('"startTimeUnixNano": "1', '"startTimeUnixNano": "-1'), "since 1970"),
        (otlp_json(llmd_spans("x", SENT)).replace('"startTimeUnixNano"', '"start"'), '"startTimeUnixNano" is null'),
    ],
)
def test_what_cannot_be_read_is_said_in_one_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "router.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    engines = written(tmp_path / "engines.jsonl", lines(scene()))
    for read in (lambda paths: open_all(paths, None), lambda paths: open_past(paths, lambda share: None)):
        with pytest.raises(InputError) as raised:
            read([engines, path])
        assert sentence in str(raised.value)
        assert "\n" not in str(raised.value)


PACKED = {
    "an object": gzip.compress(b"{}"),
    "nothing": gzip.compress(b""),
    "broken": b"\x1f\x8b\x08broken",
    "cut": b"\x1f\x8b",
}


@pytest.mark.parametrize("packed", PACKED.values(), ids=PACKED)
def test_what_is_packed_and_no_trace_is_refused(packed: bytes, tmp_path: Path) -> None:
    path = tmp_path / "some.gz"
    path.write_bytes(packed)
    with pytest.raises(InputError, match=r"is compressed|cannot be unpacked"):
        open_all([path], None)


def test_a_router_alone_says_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "dynamo.jsonl", [GOOD])
    for read in (lambda paths: open_all(paths, None), lambda paths: open_past(paths, lambda share: None)):
        with pytest.raises(InputError, match="a router's side alone; name the recording of the engines behind it, too"):
            read([path])


def test_mutated_files_are_read_or_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    engines = written(tmp_path / "engines.jsonl", lines(scene()))
    for text in (GOOD, otlp_json(llmd_spans("x", SENT))):
        raw = np.frombuffer(text.encode(), np.uint8)
        for _ in range(400):
            mutated = raw.copy()
            mutated[rng.integers(0, len(raw), 3)] = rng.integers(0, 256, 3)
            path = tmp_path / "mutated.json"
            path.write_bytes(mutated.tobytes()[: rng.integers(1, len(raw) + 1)])
            with suppress(InputError):
                open_all([engines, path], None)

"""Files as Dynamo and llm-d's proxy write them, made of what another router told of the same requests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kvscope.model.events import Events
from kvscope.probe.recording import ProcessPart, RecordsPart, TextsPart, Writer, parts
from kvscope.probe.vocabulary import LEG_CODE, MOMENTS

Told = Mapping[str, Mapping[str, int]]
"""request id -> moment -> ns since 1970"""


def router_moments(events: Events) -> dict[str, dict[str, int]]:
    """What the router in these events told, by the time of day of its own process."""
    found: dict[str, dict[str, int]] = {}
    rows = events.rows[events.rows["leg"] == LEG_CODE["router"]]
    for row in rows:
        wall = events.processes[row["process"]].wall_ns
        assert wall is not None
        found.setdefault(events.texts[int(row["request"])], {})[MOMENTS[row["moment"]]] = int(row["t"]) + wall
    return found


def without_router(recording: Path, to: Path) -> Path:
    """The same recording as if the router had told nothing."""
    left_out = set()
    with recording.open("rb") as source, to.open("wb") as target:
        writer = Writer(target)
        for part in parts(source):
            match part:
                case ProcessPart(process, info):
                    if info.get("started", {}).get("kind") == "router":
                        left_out.add(process)
                    else:
                        writer.process(process, info)
                case RecordsPart(process, thread, raw) if process not in left_out:
                    writer.records(process, thread, raw)
                case TextsPart(pairs):
                    writer.texts(pairs)
        writer.end({})
    return to


def dynamo_record(name: str, moments: Mapping[str, int], **more: Any) -> dict[str, Any]:
    """A `request_end` of a request that went to a prefill and a decode worker, as Dynamo 1.6 has its fields."""
    received = moments["received"]
    since = {moment: (t - received) / 1e6 for moment, t in moments.items()}
    total = since["first_byte"] + 100.0
    return {
        "schema": "dynamo.request.trace.v1",
        "event_type": "request_end",
        "event_time_unix_ms": received // 1_000_000 + round(total),
        "event_source": "dynamo",
        "agent_context": {"session_id": "s1"},
        "request": {
            "request_id": name,
            "x_request_id": "of-the-client",
            "model": "lab",
            "input_tokens": 1000,
            "output_tokens": 24,
            "request_received_ms": received // 1_000_000,
            "prefill_wait_time_ms": since["prefill_sent"],
            "prefill_time_ms": since["prefill_returned"] - since["prefill_sent"],
            "ttft_ms": since["prefill_returned"],
            "total_time_ms": total,
            "kv_transfer_estimated_latency_ms": since["first_byte"] - since["prefill_returned"],
            "worker": {"prefill_worker_id": 11, "decode_worker_id": 22},
            "replay": {"trace_block_size": 64, "input_length": 1000, "input_sequence_hashes": [2**63 + 1] * 16},
            **more,
        },
    }


def dynamo_lines(told: Told, enveloped: bool = False) -> Iterable[str]:
    """A line for each; `enveloped`: as in plain files, where the writer puts its own clock around."""
    for number, (name, moments) in enumerate(told.items()):
        record = dynamo_record(name, moments)
        yield json.dumps({"timestamp": number, "event": record} if enveloped else record)


NAMES = {
    "0.8": ("llm_d.pd_proxy.request", "llm_d.pd_proxy.prefill", "llm_d.pd_proxy.decode"),
    "0.10": ("forward_request", "prefill", "decode"),
}
"""version -> what it calls its spans"""


def llmd_spans(
    name: str, moments: Mapping[str, int], version: str = "0.10", known: bool = True
) -> list[dict[str, Any]]:
    """The proxy's spans of a request, and those of its HTTP library around and below. `known`: under that id."""
    request, prefill, decode = NAMES[version]
    told = {"llm_d.pd_proxy.request_id": name if known else f"own-{name}", "llm_d.pd_proxy.connector": "nixlv2"}
    end = moments["first_byte"] + 100_000_000
    whole = (moments["received"], end)
    first = (moments["prefill_sent"], moments["prefill_returned"])
    second = (moments["decode_sent"], end)
    return [
        _span(name, "server", "", "llm_d.pd_proxy.POST /v1/completions", whole, {"http.request.method": "POST"}),
        _span(name, "request", "server", request, whole, {"llm_d.pd_proxy.connector": "nixlv2"}),
        _span(name, "prefill", "request", prefill, first, told),
        _span(name, "prefill client", "prefill", "HTTP POST", first, {"server.address": "p0"}),
        _span(name, "decode", "prefill", decode, second, told),
        _span(name, "decode client", "decode", "HTTP POST", second, {"server.address": "localhost"}),
    ]


def trace_id(name: str) -> str:
    return hashlib.md5(name.encode()).hexdigest()


def span_id(name: str, part: str) -> str:
    return hashlib.md5(f"{name} {part}".encode()).hexdigest()[:16]


def _span(
    name: str, part: str, parent: str, title: str, when: tuple[int, int], attributes: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "traceId": trace_id(name),
        "spanId": span_id(name, part),
        "parentSpanId": span_id(name, parent) if parent else "",
        "name": title,
        "kind": 1,
        "startTimeUnixNano": str(when[0]),
        "endTimeUnixNano": str(when[1]),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
        "status": {},
    }


def otlp_json(spans: Iterable[dict[str, Any]]) -> str:
    """A line as a collector's file exporter writes it."""
    scope = {"name": "llm-d-router/pkg/sidecar/proxy", "version": "v0.10.0"}
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "pd-sidecar"}}]}
    return json.dumps(
        {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": list(spans)}]}]}
    )

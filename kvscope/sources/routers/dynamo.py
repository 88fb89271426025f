"""Dynamo's request trace: a JSON object per request that ended, of schema `dynamo.request.trace.v1`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from kvscope.model.counting import count
from kvscope.model.errors import InputError
from kvscope.sources.routers.log import Routed, RouterLog

SCHEMA = "dynamo.request.trace.v1"
MS = 1_000_000
LONGEST_MS = 86_400_000.0
"""A request of more than a day is none."""


def dynamo_log(lines: Iterable[str], name: str) -> RouterLog:
    """Lines -> requests. InputError: they are of another schema, or none."""
    log = RouterLog(name, "dynamo", [], coarse_ns=MS)
    others = short = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        record = _record(line, f"{name}:{number}")
        if record.get("event_type") != "request_end":
            others += 1
            continue
        routed = _routed(record, f"{name}:{number}")
        short += len(routed.moments) == 1
        log.requests.append(routed)
    if others:
        log.notes.append(f"{name}: {count(others, 'record')} of tools and payloads left out")
    if short:
        log.notes.append(f"{name}: {count(short, 'request')} without times but that of receipt: Dynamo told no more")
    return log


def _record(line: str, where: str) -> dict[str, Any]:
    """A line, out of the envelope that Dynamo's plain files put around it."""
    try:
        item = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is not JSON: {error}; one object per line is expected") from None
    if isinstance(item, dict) and isinstance(item.get("event"), dict):
        item = item["event"]
    schema = item.get("schema") if isinstance(item, dict) else None
    if schema != SCHEMA:
        raise InputError(f"{where} is of schema {json.dumps(schema)[:60]}; this kvscope reads {SCHEMA}")
    assert isinstance(item, dict)
    return item


def _routed(record: dict[str, Any], where: str) -> Routed:
    request = record.get("request")
    if not isinstance(request, dict):
        raise InputError(f'{where} has no "request"; a `request_end` of {SCHEMA} is expected')
    name = request.get("request_id")
    if not isinstance(name, str) or not name:
        raise InputError(f'{where}: "request_id" must be a non-empty text')
    received = _number(request, "request_received_ms", where, 2.0**53)
    if received is None:
        raise InputError(f'{where}: "request_received_ms" is missing; nothing says when the request came')
    whole = int(received)  # as a float of ns it would be known to 256 ns only
    since = {"received": 0.0, **_after_receipt(request, where)}
    return Routed(name, {moment: whole * MS + round((received - whole + ms) * MS) for moment, ms in since.items()})


def _after_receipt(request: dict[str, Any], where: str) -> dict[str, float]:
    """moment -> ms after receipt.

    Dynamo's `ttft_ms` ends with the first token of any worker: with prefill's answer, where prefill has a worker of its
    own. The decode worker's first token is then told from that answer on.
    """
    names = ("prefill_wait_time_ms", "ttft_ms", "kv_transfer_estimated_latency_ms")
    wait, first, handoff = (_number(request, name, where, LONGEST_MS) for name in names)
    found = {}
    if handoff is not None and first is not None:
        found = {"prefill_returned": first, "first_byte": first + handoff}
    elif first is not None and not _two_workers(request):
        found = {"first_byte": first}
    if wait is not None:
        found["prefill_sent" if _two_workers(request) or handoff is not None else "decode_sent"] = wait
    return found


def _two_workers(request: dict[str, Any]) -> bool:
    worker = request.get("worker")
    if not isinstance(worker, dict):
        return False
    prefill, decode = worker.get("prefill_worker_id"), worker.get("decode_worker_id")
    return prefill is not None and prefill != decode


def _number(request: dict[str, Any], name: str, where: str, most: float) -> float | None:
    given = request.get(name)
    if given is None:
        return None
    if (
        isinstance(given, bool)
        or not isinstance(given, (int, float))
        or not math.isfinite(given)
        or not 0 <= given <= most
    ):
        raise InputError(f'{where}: "{name}" is {json.dumps(given)[:60]}; a number of milliseconds is expected')
    return float(given)

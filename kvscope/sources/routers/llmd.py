"""The spans of llm-d's routing proxy, as OTLP JSON: what a collector's file exporter writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kvscope.model.counting import count
from kvscope.model.errors import InputError
from kvscope.sources.routers.log import Routed, RouterLog

PREFIX = "llm_d.pd_proxy."
"""Of the attributes that the proxy gives its spans, and of their names until 0.8."""
REQUEST_ID = f"{PREFIX}request_id"
REQUEST, PREFILL, DECODE = "request", "prefill", "decode"
KINDS = {
    f"{PREFIX}request": REQUEST,
    "forward_request": REQUEST,
    f"{PREFIX}prefill": PREFILL,
    "prefill": PREFILL,
    f"{PREFIX}decode": DECODE,
    "decode": DECODE,
}
"""name of a span -> what it is; the short names are from 0.9 on"""
LONGEST = 2**62
_WORD = re.compile(r"\S")


@dataclass(frozen=True)
class _Span:
    trace: str
    id: str
    parent: str
    kind: str
    """Empty: it is none of the proxy's three."""
    version: str
    ours: bool
    """The proxy's all the same, or its HTTP library's."""
    request: str
    begin: int
    end: int


def llmd_log(text: str, name: str) -> RouterLog:
    """A file's text -> requests. InputError: it is no OTLP JSON, or the proxy has no span in it."""
    spans = {(span.trace, span.id): span for span in _spans(text, name)}
    version = next((span.version for span in spans.values() if span.kind and span.version), "")
    log = RouterLog(name, "llm-d", [], version)
    numbers: dict[tuple[str, str], int] = {}
    for key, span in spans.items():
        if span.kind in (PREFILL, DECODE):
            root = _root(span, spans)
            number = numbers.setdefault((span.trace, span.request or root.id), len(log.requests))
            if number == len(log.requests):
                log.requests.append(Routed(span.request, {"received": root.begin}, span.trace, root.id))
            _tell(log.requests[number], span)
            log.spans[key] = number
    _requests_alone(spans, log)
    if not log.requests:
        raise InputError(f"{name} holds no span of llm-d's routing proxy; its spans carry {REQUEST_ID}")
    _descendants(spans, log)
    others = sum(not span.kind and not span.ours for key, span in spans.items() if key not in log.spans)
    if others:
        log.notes.append(f"{name}: {count(others, 'span')} of others left out")
    return log


def _tell(routed: Routed, span: _Span) -> None:
    if span.kind == PREFILL:
        routed.moments |= {"prefill_sent": span.begin, "prefill_returned": span.end}
    else:
        routed.moments["decode_sent"] = span.begin


def _root(span: _Span, spans: dict[tuple[str, str], _Span]) -> _Span:
    """The proxy's span of the whole request; where it is not there, the earliest that is."""
    seen = set()
    while span.kind != REQUEST and span.id not in seen:
        seen.add(span.id)
        parent = spans.get((span.trace, span.parent))
        if parent is None or not parent.kind:
            break
        span = parent
    return span


def _requests_alone(spans: dict[tuple[str, str], _Span], log: RouterLog) -> None:
    """Requests that went to decode alone: the proxy gives them no id, and their trace has to tell."""
    known = {(routed.trace, routed.span): number for number, routed in enumerate(log.requests)}
    for key, span in spans.items():
        if span.kind == REQUEST:
            if key not in known:
                known[key] = len(log.requests)
                log.requests.append(Routed("", {"received": span.begin}, span.trace, span.id))
            log.spans[key] = known[key]


def _descendants(spans: dict[tuple[str, str], _Span], log: RouterLog) -> None:
    """Spans of what the proxy sent: engines were told these."""
    for key, span in spans.items():
        path, at = [key], span
        while path[-1] not in log.spans and (at.trace, at.parent) in spans and len(path) < 64:
            at = spans[at.trace, at.parent]
            path.append((at.trace, at.id))
        if path[-1] in log.spans:
            log.spans |= dict.fromkeys(path, log.spans[path[-1]])


def _spans(text: str, name: str) -> Iterator[_Span]:
    for document, where in _documents(text, name):
        groups = _listed(document, "resourceSpans", where)
        for scope in (scope for group in groups for scope in _listed(group, "scopeSpans", where)):
            about = scope.get("scope")
            version = about.get("version") if isinstance(about, dict) else None
            for span in _listed(scope, "spans", where):
                yield _span(span, version if isinstance(version, str) else "", where)


def _documents(text: str, name: str) -> Iterator[tuple[dict[str, Any], str]]:
    """JSON objects one after the other, one a line or spread over lines."""
    decoder, at, line, counted = json.JSONDecoder(), _next(text, 0), 1, 0
    while at < len(text):
        line, counted = line + text.count("\n", counted, at), at
        where = f"{name}:{line}"
        try:
            document, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where} is not JSON: {error}; OTLP JSON is expected") from None
        if not isinstance(document, dict):
            raise InputError(f"{where} is not a JSON object; OTLP JSON is expected")
        yield document, where
        at = _next(text, at)


def _next(text: str, at: int) -> int:
    """Where the next character is that is no space."""
    found = _WORD.search(text, at)
    return found.start() if found else len(text)


def _listed(item: dict[str, Any], name: str, where: str) -> list[dict[str, Any]]:
    found = item.get(name, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise InputError(f'{where}: "{name}" is no list of objects; OTLP JSON is expected')
    return found


def _span(item: dict[str, Any], version: str, where: str) -> _Span:
    attributes = {}
    for each in _listed(item, "attributes", where):
        value = each.get("value")
        attributes[each.get("key")] = value.get("stringValue") if isinstance(value, dict) else None
    ours = any(isinstance(key, str) and key.startswith(PREFIX) for key in attributes)
    kind = KINDS.get(str(item.get("name")), "") if ours else ""
    ids = [str(item.get(key) or "").lower() for key in ("traceId", "spanId", "parentSpanId")]
    times = [_instant(item, key, where) for key in ("startTimeUnixNano", "endTimeUnixNano")] if kind else [0, 0]
    ours |= str(item.get("name")).startswith(PREFIX)
    return _Span(ids[0], ids[1], ids[2], kind, version, ours, str(attributes.get(REQUEST_ID) or ""), *times)


def _instant(item: dict[str, Any], name: str, where: str) -> int:
    """ns since 1970; JSON writes 64 bits as a text."""
    given = item.get(name)
    text = given if isinstance(given, str) else str(given) if type(given) is int else ""
    if not text.isdecimal() or not 0 < int(text[:20]) < LONGEST:
        raise InputError(f'{where}: "{name}" is {json.dumps(given)[:60]}; ns since 1970 are expected')
    return int(text)

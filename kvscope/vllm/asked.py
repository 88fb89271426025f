"""What a request brings along: its leg, its peer, the span that it came under."""

from __future__ import annotations

from typing import Any

from kvscope.probe import recorder
from kvscope.probe.vocabulary import LEG_CODE, UNKNOWN

PREFILL, DECODE = LEG_CODE["prefill"], LEG_CODE["decode"]

# Of W3C's `traceparent`. Clients can send what they like: another length is another version, or none.
TRACEPARENT_CHARS = 55


def leg_of(params: Any) -> int:
    """The leg a request is on: its own parameters tell, never the engine's role."""
    return PREFILL if params and params.get("do_remote_decode") else DECODE


def blocks_in(groups: Any) -> int:
    """KV blocks in vLLM's per-group lists (or one flat list)."""
    count = 0
    for group in groups or ():  # a loop: a generator costs more than all it would add up here
        count += len(group) if isinstance(group, (list, tuple)) else 1
    return count


def peer_engine(params: Any) -> int:
    """The other engine's id as a value, UNKNOWN where the router named none."""
    name = given(params, "remote_engine_id")
    return UNKNOWN if name is None else recorder.text(name)


def traceparent(request: Any) -> int:
    """The span that it came under as a value, UNKNOWN without one. vLLM keeps it only where it traces itself; it is as
    good as an id, and told only where these are."""
    if not recorder.IDS_KEPT:
        return UNKNOWN
    headers = getattr(request, "trace_headers", None)
    told = given(headers, "traceparent") if headers else None
    return UNKNOWN if told is None or len(told) != TRACEPARENT_CHARS else recorder.text(told)


def given(params: Any, name: str) -> str | None:
    """A text among a request's parameters; None for anything else, since clients can send what they like."""
    value = params.get(name) if params else None
    return value if isinstance(value, str) and value else None

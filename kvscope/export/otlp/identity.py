"""Trace and span ids: as told where somebody told them, else made of the request's own id, and always the same."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b

from kvscope.model.ids import router_id

SAMPLED = 1
"""The trace flag that says that spans of this trace are kept."""
_ODD = 0x9E37_79B9_7F4A_7C15
_MASK = 0xFFFF_FFFF_FFFF_FFFF
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")


@dataclass(frozen=True, slots=True)
class Context:
    """A span of somebody else's."""

    trace: bytes
    """16 bytes"""
    span: bytes
    """8 bytes"""
    flags: int


def context_of(traceparent: str) -> Context | None:
    """What a W3C `traceparent` names, or None if it is none."""
    found = _TRACEPARENT.fullmatch(traceparent)
    if found is None:
        return None
    trace, span, flags = found.groups()
    return Context(bytes.fromhex(trace), bytes.fromhex(span), int(flags, 16))


def trace_of(request: str) -> bytes:
    """The trace of a request that nobody told one of: a hash of the id that its router gave it, so that both legs,
    and exports of each alone, come to the same."""
    return _hash(router_id(request), 16)


def root_of(request: str, peer: str, begun: int) -> int:
    """A number for the root span: of both ids, and of its first moment (ns), since ids are used again."""
    return int.from_bytes(_hash(f"{request}\0{peer}\0{begun}", 8), "big")


def span_id(root: int, number: int) -> bytes:
    """The id of span `number` under a root, whose own number is 0."""
    return ((root + number * _ODD) & _MASK or 1).to_bytes(8, "big")


def _hash(text: str, size: int) -> bytes:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=size, person=b"kvscope span").digest()

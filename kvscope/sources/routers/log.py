"""What a router's own file told, before anybody knows which clock the engines' moments are on."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Routed:
    """One request."""

    id: str
    """The id that the router gave it, as far as it told one."""
    moments: dict[str, int] = field(default_factory=dict)
    """moment -> ns since 1970, by the router's clock"""
    trace: str = ""
    """The trace that it is in, in hex."""
    span: str = ""
    """The router's span of it, in hex."""


@dataclass
class RouterLog:
    """One file."""

    name: str
    """What errors and notes call it."""
    router: str
    """Whose it is: its stable name in what is reported."""
    requests: list[Routed]
    version: str = ""
    """As it says itself."""
    coarse_ns: int = 0
    """How much later than told a moment can have been."""
    spans: dict[tuple[str, str], int] = field(default_factory=dict)
    """(trace, span) -> which of `requests` it belongs to; empty where there are no spans."""
    notes: list[str] = field(default_factory=list)
    """Sentences: what was left out."""

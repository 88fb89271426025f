"""What incident.json says: pure functions of what is known."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from kvscope.incidents.folder import RECORDING
from kvscope.incidents.judging import Fired
from kvscope.incidents.memory import Info
from kvscope.probe import layout, recording
from kvscope.probe.heading import kvscope_version

VERSION = 1
MOST_ALSO = 100
"""Causes that are listed beside the first; all are counted."""
LONGEST_REASON = 200
ENGINE_FACTS = (
    "engine", "engine_id", "role", "connector", "mode", "vllm", "nixl", "torch", "release", "patches", "model",
    "tp", "pp", "dp",
)  # fmt: skip


@dataclass(frozen=True)
class Cause:
    """Why something is saved."""

    slug: str
    """For the name of the folder."""
    text: str
    """The expression that was set off, or how somebody asked."""
    at: int
    """ns of the events' clock: when it was seen"""
    origin: int
    """When it began, as far as that is known."""
    by_hand: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def told(self) -> dict[str, Any]:
        """For the account."""
        return {"what": self.text, "at_ns": self.at, "by_hand": self.by_hand, **self.details}


def cause_of(fired: Fired) -> Cause:
    """A trigger that was set off."""
    trigger = fired.trigger
    limit = {} if trigger.limit_ns == 0 else {"limit_ns": trigger.limit_ns, "value_ns": fired.value_ns}
    details = limit | {"count": fired.count, "requests": [asdict(culprit) for culprit in fired.culprits]}
    return Cause(trigger.slug, trigger.text, fired.at, min(fired.origin, fired.at), details=details)


def cause_by_hand(how: str, reason: str, now: int) -> Cause:
    """Somebody asked for it. What they say may hold anything."""
    said = " ".join(reason.split())[:LONGEST_REASON]
    slug = "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in said.lower())
    return Cause(slug.strip("-")[:40] or "asked", how, now, now, True, {"reason": said} if said else {})


@dataclass(frozen=True)
class Span:
    """What was asked for, and what came of it. Times are ns of the events' clock."""

    before_s: float
    after_s: float
    begin: int
    end: int


def account(
    cause: Cause,
    also: Iterable[Cause],
    also_count: int,
    span: Span,
    clock: Mapping[str, Any],
    held: Mapping[str, Any],
    infos: Iterable[Info],
    **more: object,
) -> dict[str, Any]:
    """The whole of it. `clock`: boot_id, wall_ns; `held`: what the recording holds; `more`: further fields"""
    wall_ns = int(clock["wall_ns"])
    times = {"trigger": cause.at, "begin": span.begin, "end": span.end}
    return {
        "version": VERSION,
        "cause": cause.told,
        "also": [each.told for each in also],
        "also_count": also_count,
        "times": {name: {"ns": t, "utc": utc(t + wall_ns)} for name, t in times.items()},
        "asked": {"before_s": span.before_s, "after_s": span.after_s},
        "clock": dict(clock),
        "recording": {"file": RECORDING, **held},
        "engines": engines(infos),
        "versions": versions(),
        **more,
    }


def utc(ns: int) -> str:
    """ns since 1970 as people write it."""
    return datetime.fromtimestamp(ns / 1e9, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def engines(infos: Iterable[Info]) -> list[dict[str, Any]]:
    """What the processes said they are, each engine once."""
    found: dict[tuple[Any, Any], dict[str, Any]] = {}
    for info in infos:
        started = info.get("started") or {}
        told = {name: started[name] for name in ENGINE_FACTS if name in started}
        if told:
            found.setdefault((told.get("engine"), told.get("engine_id")), {}).update(told)
    return list(found.values())


def versions() -> dict[str, Any]:
    """Of what wrote it."""
    told = {"recording": recording.VERSION, "layout": layout.VERSION, "python": platform.python_version()}
    return {"kvscope": kvscope_version(), **told}

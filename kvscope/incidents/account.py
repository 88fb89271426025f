"""What incident.json says: pure functions of what is known."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from kvscope.incidents.folder import RECORDING
from kvscope.incidents.judging import Culprit, Fired
from kvscope.incidents.memory import SECOND, Info
from kvscope.model.splits import text_of
from kvscope.probe import layout, recording
from kvscope.probe.heading import kvscope_version
from kvscope.probe.ids import Ids
from kvscope.sources.records import low64

VERSION = 1
MOST_ALSO = 100
"""Causes that are listed beside the first; all are counted."""
LONGEST_REASON = 200
ENGINE_FACTS = (
    "engine", "engine_id", "role", "connector", "mode", "vllm", "nixl", "torch", "release", "patches", "model",
    "tp", "pp", "dp",
)  # fmt: skip
_KEY = re.compile(r"#([0-9a-f]{16})")
"""How a request is named whose id was lost."""


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


def cause_of(fired: Fired, ids: Ids | None = None) -> Cause:
    """A trigger that was set off. `ids`: how requests are named; None: as they are."""
    trigger = fired.trigger
    limit = {} if trigger.limit_ns == 0 else {"limit_ns": trigger.limit_ns, "value_ns": fired.value_ns}
    details = limit | {"count": fired.count, "requests": [_named(culprit, ids) for culprit in fired.culprits]}
    return Cause(trigger.slug, trigger.text, fired.at, min(fired.origin, fired.at), details=details)


def _named(culprit: Culprit, ids: Ids | None) -> dict[str, Any]:
    told = asdict(culprit)
    return told | {"request": _hidden(culprit.request, ids)} if ids and culprit.request else told


def _hidden(request: str, ids: Ids) -> str:
    """What the recording calls it: by its name, or by its key where the text was lost."""
    if found := _KEY.fullmatch(request):
        return text_of({}, low64(ids.key(int(found[1], 16).to_bytes(8, "little"))))
    return ids.name(request)


def cause_by_hand(how: str, reason: str, now: int) -> Cause:
    """Somebody asked for it. What they say may hold anything."""
    said = " ".join(reason.split())[:LONGEST_REASON]
    slug = "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in said.lower())
    return Cause(slug.strip("-")[:40] or "asked", how, now, now, True, {"reason": said} if said else {})


@dataclass(frozen=True)
class Span:
    """What was asked for. Times are ns of the events' clock."""

    before_s: float
    after_s: float
    begin: int
    end: int

    @classmethod
    def around(cls, cause: Cause, before_s: float, after_s: float) -> Span:
        """What is asked for when it happens."""
        return cls(before_s, after_s, cause.origin - round(before_s * SECOND), cause.at + round(after_s * SECOND))

    @property
    def stretch(self) -> tuple[int, int]:
        """The first and the last instant of it."""
        return self.begin, self.end


def account(
    cause: Cause,
    also: Iterable[Cause],
    also_count: int,
    span: Span,
    saved: tuple[int, int] | None,
    clock: Mapping[str, Any],
    held: Mapping[str, Any],
    infos: Iterable[Info],
    **more: object,
) -> dict[str, Any]:
    """The whole of it. `saved`: the first and last event's time; None: there is none yet. `clock`: boot_id, wall_ns;
    `held`: what the recording holds; `more`: further fields"""
    wall_ns = int(clock["wall_ns"])
    times = {"trigger": cause.at} | (dict(zip(("begin", "end"), saved, strict=True)) if saved else {})
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

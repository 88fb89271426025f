"""Stages that do not mean quite the same in two versions of vLLM: what lies between their moments has changed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kvscope.analysis.setup import Setup

Version = tuple[int, ...]


@dataclass(frozen=True)
class Seam:
    """A change of what a stage takes in."""

    stage: str
    since: Version
    why: str


SEAMS: tuple[Seam, ...] = (
    Seam(
        "prefill_queue",
        (0, 33),
        "the scheduler may put prefills off between decodes, and goes past one that gets no tokens",
    ),
    Seam("read_handoff", (0, 33), "a read may meet its peer anew, once that has registered its memory again"),
    Seam("report", (0, 33), "the model runner may put the end of a step off"),
)
"""As its source says; `docs/porting.md` says how a release is gone through."""


def crossed(one: Setup, other: Setup) -> tuple[Seam, ...]:
    """Those that lie between the versions of both sides."""
    found = [version for setup in (one, other) for version in _versions(setup)]
    if not found:
        return ()
    return tuple(seam for seam in SEAMS if min(found) < seam.since <= max(found))


def _versions(setup: Setup) -> list[Version]:
    fact = setup.facts.get("vllm")
    texts = [value for value, _ in fact.values] if fact else []
    numbers = (re.match(r"(\d+)\.(\d+)", text) for text in texts)
    return [(int(each[1]), int(each[2])) for each in numbers if each]

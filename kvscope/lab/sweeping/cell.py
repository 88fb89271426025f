"""One cell of a sweep: a mode, a prompt length, a rate. Data only."""

from __future__ import annotations

import json
from dataclasses import dataclass

CONTROLLED, PRODUCTION = "controlled", "production"
SHAPES = (CONTROLLED, PRODUCTION)
MIXED = 0
"""In a prompt length's place: lengths are mixed."""


@dataclass(frozen=True)
class Mode:
    """A way of handing over."""

    name: str
    connector: str
    dispatch: str


MODES: dict[str, Mode] = {
    mode.name: mode
    for mode in (
        Mode("push-early", "push", "early"),
        Mode("push-sequential", "push", "sequential"),
        Mode("pull", "pull", "sequential"),
    )
}
TARGET = Mode("target", "", "")
"""Engines that run already: they are what they are."""


@dataclass(frozen=True)
class Cell:
    """What is measured in one go."""

    mode: str
    tokens: int
    """Of a prompt, or MIXED."""
    at: float
    """How much is sent: a share of the capacity, or requests per second."""
    shared: bool = True
    """`at` is a share."""

    @property
    def name(self) -> str:
        """Its folder's name, and what its requests' ids begin with."""
        return f"{self.mode}-{self.condition}"

    @property
    def condition(self) -> str:
        """What it has in common with cells of other modes."""
        return f"{self.tokens or 'mixed'}-at-{self.at:g}{'' if self.shared else 'rps'}"

    @property
    def mode_words(self) -> str:
        """Its mode, for people."""
        return self.mode.replace("-", " ")

    @property
    def load(self) -> str:
        """How much is sent, for people."""
        return f"{self.at:.0%} of capacity" if self.shared else f"{self.at:g}/s"

    @property
    def length(self) -> str:
        """How long the prompts are, for people."""
        return f"{self.tokens:,} tokens" if self.tokens else "mixed lengths"


def canonical(told: object) -> str:
    """The one way in which options are written, so that equal ones have equal hashes."""
    return json.dumps(told, sort_keys=True, separators=(",", ":"), allow_nan=False)

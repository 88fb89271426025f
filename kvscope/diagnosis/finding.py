"""What a diagnosis says."""

from __future__ import annotations

from dataclasses import dataclass

from kvscope.diagnosis.match import Match, Measure
from kvscope.diagnosis.onset import Onset
from kvscope.diagnosis.texts import TEXTS, Text
from kvscope.model.stages import STAGE


@dataclass(frozen=True)
class Who:
    """Whom it struck."""

    struck: int
    of: int
    """requests that are judged"""
    engines: str
    prompts: str


@dataclass(frozen=True)
class Finding:
    """A case that fits, or a stage that nothing known explains."""

    match: Match
    explains_ns: float
    """of TTFT at the diagnosis' place"""
    share: float | None
    """of the excess TTFT there, or of the whole where nothing shows what is usual; None: it has no part in it"""
    cost_s: float
    """seconds that it cost all whom it struck together, those that still wait included"""
    since: Onset
    who: Who
    see: tuple[str, ...]
    """handles of the requests that show it best"""

    @property
    def slug(self) -> str:
        """The case's name, `unfamiliar` for what is none."""
        return self.match.slug

    @property
    def cls(self) -> str:
        """The class of its stage."""
        return str(STAGE[self.match.stage].cls)

    @property
    def text(self) -> Text:
        """What there is to say of it."""
        return TEXTS[self.slug]


@dataclass(frozen=True)
class Diagnosis:
    """All that was found, the dearest first."""

    findings: tuple[Finding, ...]
    place: str
    """`p95` or `mean`: where TTFT is compared"""
    ttft: Measure
    judged: int
    """requests"""
    timed: int
    usual: int | None
    """requests that show what is usual; None: nothing does"""
    usual_from: str
    """where these come from"""
    stages: tuple[Measure, ...]
    """every stage that has a part of TTFT, usual and now"""
    missed: Measure | None
    """share that missed the objective; None: none was given"""
    hung: int
    unknown: tuple[str, ...]
    first: int
    """ns of the first event"""
    wall: int | None
    """what to add to get ns since 1970"""

    @property
    def excess_ns(self) -> float:
        """By how much TTFT is more than usual; all of it where nothing shows what is."""
        return self.ttft.now - (self.ttft.was or 0.0)

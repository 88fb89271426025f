"""An incident that can be made: on which engines, in which phases, and what is then true of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kvscope.lab.load import LoadOptions
from kvscope.lab.pair import PairOptions
from kvscope.model.errors import InputError
from kvscope.model.stages import STAGE

TRUTH = "truth.json"
FIRST, ANYWHERE, LAST, AT_THE_END = range(4)
"""When a case comes on a pair: before the engines have met, in any order, once it may leave blocks taken, once it
leaves no engine alive."""
NOTHING: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True)
class Blow:
    """A signal to a part of an engine."""

    at_s: float
    """After the begin of the phase."""
    engine: str
    signal: str
    """`SIGKILL`, `SIGSTOP`, `SIGCONT`"""
    part: str = ""
    """Of a process's title, `EngineCore`, `Worker`; empty: all processes of the engine."""


@dataclass(frozen=True)
class Phase:
    """What is sent for a while, and what is done meanwhile."""

    loads: tuple[LoadOptions, ...]
    conduct: Mapping[str, object] = field(default_factory=dict)
    """Of the router, beyond the case's dispatch: see `dispatch.Conduct`."""
    faulty: bool = True
    """The incident is in it; else it shows what is usual, or comes after."""
    blows: tuple[Blow, ...] = ()


@dataclass(frozen=True)
class Case:
    """One incident."""

    name: str
    """What it is asked for by: its slug, unless a slug has several."""
    done: str
    """What is done, in one line."""
    pair: PairOptions
    phases: tuple[Phase, ...]
    stage: str
    """Where it is to be found; empty: it is healthy, and nothing is."""
    culprit: str
    """router, prefill, decode, client, link"""
    slug: str | None = None
    """Which is to be named; None: its name. Empty: none."""
    dispatch: str = "sequential"
    turn: int = ANYWHERE
    beside: str = ""
    """The case whose recording shows what is usual; empty: the recording itself does."""
    settle_s: float = 0.0
    """Recorded on after the last answer, until leases have ended."""

    @property
    def expected(self) -> str:
        """The slug that is to be named first, empty for none."""
        return self.name if self.slug is None else self.slug

    @property
    def cls(self) -> str:
        """The class of its stage."""
        return str(STAGE[self.stage].cls) if self.stage else ""


@dataclass(frozen=True)
class Truth:
    """What was done when. Times: ns on the events' clock."""

    name: str
    slug: str
    stage: str
    cls: str
    culprit: str
    done: str
    begin_ns: int
    """When the incident began, and when it was over; 0 in what is healthy."""
    end_ns: int
    beside: str = ""
    phases: tuple[tuple[int, int, bool], ...] = ()
    """(begin, end, whether the incident was in it)"""


def truth_of(case: Case, phases: tuple[tuple[int, int, bool], ...]) -> Truth:
    """The truth of a case whose phases were at these times."""
    faulty = [(begin, end) for begin, end, bad in phases if bad and case.expected]
    begin, end = (faulty[0][0], faulty[-1][1]) if faulty else (0, 0)
    return Truth(
        case.name, case.expected, case.stage, case.cls, case.culprit, case.done, begin, end, case.beside, phases
    )


def write_truth(path: Path, truth: Truth) -> None:
    """As JSON; `class` is the stage's."""
    told: dict[str, Any] = asdict(truth)
    path.write_text(json.dumps({"class" if key == "cls" else key: value for key, value in told.items()}, indent=1))


def read_truth(path: Path) -> Truth:
    """What `write_truth` wrote. InputError: it is something else."""
    try:
        told = json.loads(path.read_text())
        phases = tuple((int(begin), int(end), bool(bad)) for begin, end, bad in told.pop("phases"))
        return Truth(**{"cls" if key == "class" else key: value for key, value in told.items()}, phases=phases)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is no truth of `kvscope lab incident`: {error}") from error

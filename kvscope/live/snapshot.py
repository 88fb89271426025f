"""One picture of a fleet: everything that a screen shows is computed from it, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from kvscope.analysis.objectives import Objectives
from kvscope.analysis.summary import Summary, gather_summary
from kvscope.live.feed import Flow
from kvscope.live.gaps import Gap
from kvscope.live.regime import Regime
from kvscope.live.trend import Point
from kvscope.model.events import Events, Process
from kvscope.model.requests import Tally
from kvscope.model.splits import Splits


@dataclass(frozen=True)
class Rates:
    """Of the events' last while."""

    events: float
    """per second"""
    requests: float
    """first tokens per second"""


@dataclass(frozen=True)
class Snapshot:
    """Frozen. What is dear to compute is computed when it is first asked for."""

    source: str
    flow: Flow
    remark: str
    """what has to be said of the source; may be empty"""
    faults: tuple[str, ...]
    now: int
    """ns of the events' clock"""
    wall_ns: int | None
    """what to add to get the time of day; None where nobody told"""
    begun: int | None
    """the first event that was looked at; None: none was"""
    answered: int | None
    """ns of the latest first token that was ever seen, however long ago"""
    last: int | None
    """ns of the latest that was ever seen of a request"""
    window_ns: int
    """what was asked for"""
    begin: int
    """the window is [begin, now]: shorter than asked where data or what leads began later, or where it is too much"""
    window: Splits
    """all requests of the window: over, answered and still running, unfinished"""
    cut: bool
    """whether the window is shorter only because it holds all that is kept"""
    scoped: Events
    """steps, load and handshakes of the window, with every process; of an unchanged load, what was told before it"""
    tally: Tally
    """all that was counted since the beginning"""
    regime: Regime | None
    trend: tuple[Point, ...]
    rates: Rates
    objectives: Objectives | None = None
    heard: tuple[int, ...] = ()
    """ns of the latest event of each process, UNKNOWN of those that were only listed"""
    gaps: tuple[Gap, ...] = ()
    """that reach into the window"""
    first: int | None = None
    """the first event of the source, where it is known, looked at or not"""
    notes: tuple[str, ...] = ()
    """what is good to know of the source, and impairs nothing"""
    without: str = ""
    """what the ids of requests hold that are left out; empty: none are"""

    @property
    def processes(self) -> tuple[Process, ...]:
        """Every process that was seen."""
        return self.scoped.processes

    @cached_property
    def summary(self) -> Summary:
        """What a report would say of the window."""
        return gather_summary(self.scoped, self.window, self.objectives, slowest=0)

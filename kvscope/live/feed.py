"""Where a live view's events come from. Rings, a replay and a far aggregator look alike from here on."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from kvscope.live.kept import Kept
from kvscope.model.events import EVENT, Events
from kvscope.model.exchange import Exchange
from kvscope.sources.rings import Rings, reading_ahead
from kvscope.sources.run_dirs import none_in


class Flow(StrEnum):
    """Whether what is shown is of now."""

    LIVE = "live"
    REPLAY = "replay"
    PAUSED = "paused"
    """A replay that stands still."""
    ENDED = "ended"
    """A replay at its end."""
    LOST = "lost"
    """The far end went away: what is shown is old."""


@dataclass(frozen=True)
class Batch:
    """What came since the last poll."""

    events: Events
    now: int
    """ns of the events' clock"""
    wall_ns: int | None = None
    """what to add to that clock to get the time of day; None where nobody told"""
    flow: Flow = Flow.LIVE
    remark: str = ""
    """what a person should know of the source: how far a replay is, since when the far end is gone"""
    faults: tuple[str, ...] = ()
    """sentences on what could not be read, or may be wrong"""
    notes: tuple[str, ...] = ()
    """sentences on the source that are good to know, and impair nothing"""
    restart: bool = False
    """time went backwards (a seek): forget what was"""
    until: int | None = None
    """ns of the last event that there will ever be, once the clock has gone on beyond it"""
    first: int | None = None
    """ns of the first event that there is, given or not; None where nobody knows"""
    exchanges: tuple[Exchange, ...] = ()
    """what hosts' clocks showed, since the last poll"""

    @property
    def shown(self) -> int:
        """What a picture is of: beyond the last event nothing can happen, and what is open gets no older."""
        return self.now if self.until is None else self.until


class Feed(Protocol):
    """A source of batches."""

    name: str
    """What the title calls it."""

    def poll(self) -> Batch:
        """What is new. Does not wait. InputError: nothing can ever come from here."""

    def save(self, folder: Path) -> str:
        """Save the last minutes as a recording in `folder`; returns a sentence. InputError: it cannot be done."""

    def close(self) -> None:
        """Let go of what is held."""


@runtime_checkable
class Coming(Protocol):
    """A source that has nothing to show at first, whatever there is."""

    def wait(self) -> bool:
        """Wait until a poll shows what there is, or raises; returns whether it does. Bounded where it may never."""


@runtime_checkable
class Fleeting(Protocol):
    """A source that overwrites what is not read in time."""

    def ahead(self) -> AbstractContextManager[None]:
        """Within, what comes between two polls is read in time."""


LOOK_S = 2.0
"""Between two looks for engines elsewhere."""


@dataclass
class Local:
    """The rings of this host."""

    run_dir: Path
    name: str = "this host"
    _kept: Kept = field(default_factory=Kept, repr=False)
    _look_at: float = field(default=0.0, repr=False)
    _nobody: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        self._rings = Rings(self.run_dir)

    def ahead(self) -> AbstractContextManager[None]:
        """Within, what comes between two polls is read in time."""
        return reading_ahead(self._rings)

    def poll(self) -> Batch:
        """New events, and the time of day by this host's clocks."""
        events = self._rings.poll(self._kept.add)
        now = time.monotonic_ns()
        remark = "" if self._rings.readings else self._none_here()
        return Batch(events, now, time.time_ns() - now, remark=remark, faults=self._rings.faults)

    def _none_here(self) -> str:
        """Where else engines of this host record, looked for now and then as long as none does here."""
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + LOOK_S
            self._nobody = none_in(self.run_dir)
        return self._nobody

    def save(self, folder: Path) -> str:
        """What was read in the last minutes, from rings that may have been overwritten since."""
        return self._kept.save(folder, dict(enumerate(reading.info for reading in self._rings.readings)))

    def close(self) -> None:
        """Nothing is held but maps, which the process's end frees."""


def no_events() -> Events:
    """An empty set."""
    return Events(np.empty(0, EVENT), (), {})

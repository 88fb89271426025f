"""Since when the time to first token is led by what leads it now.

Two neighbouring windows are held against what is known: only when both disagree with it and agree with each other
has something changed, within the earlier one. A slow request or two change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kvscope.analysis.bands import CLASSES, Band, class_ns, gather_bands
from kvscope.analysis.headline import leader_of
from kvscope.analysis.holding import RESERVED, Held, gather_held
from kvscope.analysis.overlap import Overlap, gather_overlap, late_by
from kvscope.analysis.price import kv_blocks
from kvscope.model.splits import Splits
from kvscope.model.stages import Class
from kvscope.probe.vocabulary import UNKNOWN


@dataclass(frozen=True)
class Span:
    """How much a window has to hold to say something."""

    shortest_ns: int
    longest_ns: int
    fewest: int
    """requests"""


MANNER = Span(1_250_000_000, 15_000_000_000, 6)
"""Each request shows how it was dispatched: a few are enough, and a change is seen at once."""
CLASS = Span(10_000_000_000, 30_000_000_000, 24)
"""What leads is a matter of how long things took, which some slow requests would turn to and fro."""
JUDGE_NS = 1_000_000_000
"""Windows of ten seconds differ little from one look to the next: what leads is judged once in so long."""


@dataclass(frozen=True)
class Manner:
    """How the two engines are brought together, as the requests show it."""

    name: str
    sentence: str


EARLY = Manner("early", "Decode is called without waiting for prefill.")
AFTER = Manner("after prefill", "Decode is called after prefill returns.")
PULL = Manner("pull", "Decode pulls after prefill returns.")
NO_HANDOFF = Manner("no handoff", "No request needs a transfer between engines.")
MANNERS = (EARLY, AFTER, PULL, NO_HANDOFF)


@dataclass(frozen=True)
class Reading:
    """One window of the requests seen."""

    begin: int
    end: int
    splits: Splits
    rows: np.ndarray
    """(n,) rows of `splits` in the window"""
    manner: Manner

    @cached_property
    def able(self) -> tuple[Class, ...]:
        """Classes that may lead its slow half, greatest lower bound first."""
        return _able(self.splits, self.rows)


@dataclass(frozen=True)
class Before:
    """How it was until it changed."""

    begin: int
    end: int
    bands: tuple[Band, ...]
    overlap: Overlap
    manner: Manner
    reserved: Held
    """decode's blocks that its complete requests held empty"""


@dataclass(frozen=True)
class Regime:
    """What leads, and since when."""

    cls: Class
    manner: Manner
    since: int | None = None
    """ns; None: since the data begins"""
    before: Before | None = None
    settled: bool = False
    """whether `cls` was judged over a window long enough"""
    judged: int = UNKNOWN
    """ns: when that was looked at last"""


def advanced(regime: Regime | None, timed: Splits, now: int) -> Regime | None:
    """The regime at `now`, by the requests that have a TTFT; None as long as there are too few to say anything."""
    order = np.flatnonzero(timed.timed)
    order = order[np.argsort(timed.first_token[order], kind="stable")]
    seen = Seen(timed, order, timed.first_token[order])
    later = seen.reading(MANNER, now)
    if later is None:
        return regime
    if regime is None:
        return Regime(later.able[0], later.manner)
    if regime.manner != later.manner:
        return _other_manner(regime, seen, later)
    if now - regime.judged < JUDGE_NS:
        return regime
    return replace(_other_class(regime, seen, now), judged=now)


def _other_manner(regime: Regime, seen: Seen, later: Reading) -> Regime:
    earlier = seen.reading(MANNER, later.begin)
    if earlier is None or earlier.manner != later.manner:
        return regime
    # Where pictures are far apart, both windows may lie after the change.
    since = seen.boundary(regime.since or 0, earlier.end, seen.manners == MANNERS.index(later.manner))
    return Regime(later.able[0], later.manner, since, seen.before(regime, since))


def _other_class(regime: Regime, seen: Seen, now: int) -> Regime:
    """What leads is first judged over a long window; before that it is what it seemed when the manner changed. Windows
    that reach beyond the last change say nothing of the time since."""
    later = seen.reading(CLASS, now)
    if later is None or _beyond(regime, later) or regime.cls in later.able:
        return replace(regime, settled=True) if later is not None else regime
    if not regime.settled:
        return replace(regime, cls=later.able[0], settled=True)
    earlier = seen.reading(CLASS, later.begin)
    if earlier is None or _beyond(regime, earlier) or regime.cls in earlier.able or later.able[0] not in earlier.able:
        return regime
    cls = later.able[0]
    new = class_ns(seen.splits.exposed).argmax(axis=1) == CLASSES.index(cls)
    since = seen.boundary(earlier.begin, earlier.end, new)
    return Regime(cls, regime.manner, since, seen.before(regime, since), settled=True)


def _beyond(regime: Regime, reading: Reading) -> bool:
    return regime.since is not None and reading.begin < regime.since


@dataclass(frozen=True)
class Seen:
    """Requests with a TTFT in the order of their first tokens."""

    splits: Splits
    order: np.ndarray
    """(n,) rows of `splits`"""
    times: np.ndarray
    """(n,) ns, ascending"""

    @cached_property
    def manners(self) -> np.ndarray:
        """(all,) index into MANNERS, by row of `splits`"""
        return manners(self.splits)

    def reading(self, span: Span, end: int) -> Reading | None:
        """The window that ends at `end`: as short as it may be, with requests enough. None: there are too few."""
        last = int(np.searchsorted(self.times, end, "right"))
        first = min(int(np.searchsorted(self.times, end - span.shortest_ns)), last - span.fewest)
        if first < 0 or self.times[first] < end - span.longest_ns:
            return None
        rows = self.order[first:last]
        begin = min(end - span.shortest_ns, int(self.times[first]))
        return Reading(begin, end, self.splits, rows, manner_of(self.manners[rows]))

    def boundary(self, begin: int, end: int, new: np.ndarray) -> int:
        """ns: the request between both from which on the new ones outnumber the others most; stragglers move it little.

        new: (all,) bool, by row of `splits`
        """
        first, last = np.searchsorted(self.times, (begin, end))
        excess = np.cumsum(np.where(new[self.order[first:last]], 1, -1)[::-1])
        return int(self.times[last - 1 - int(excess.argmax())])

    def before(self, regime: Regime, until: int) -> Before | None:
        """How it was from the regime's begin, as far back as is known."""
        return _before(regime, self.splits, until)


def manners(splits: Splits) -> np.ndarray:
    """(n,) index into MANNERS"""
    pull = splits.shaped("pull", "return_read")
    push = np.where(splits.knew == 1, MANNERS.index(AFTER), MANNERS.index(EARLY))
    handed = np.where(splits.shaped("push"), push, MANNERS.index(NO_HANDOFF))
    return np.asarray(np.where(pull, MANNERS.index(PULL), handed))


def manner_of(found: np.ndarray) -> Manner:
    """How most of the requests that were handed over had their engines brought together; found: index into MANNERS."""
    counts = np.bincount(found, minlength=len(MANNERS))
    counts[MANNERS.index(NO_HANDOFF)] *= not counts[: MANNERS.index(NO_HANDOFF)].any()
    return MANNERS[int(counts.argmax())]


def _able(splits: Splits, rows: np.ndarray) -> tuple[Class, ...]:
    """Classes that may lead the rows' slow half: a tail that a mean of all would hide, and no single request's."""
    slow = rows[np.argsort(-splits.ttft[rows], kind="stable")[: (len(rows) + 1) // 2]]
    ttft, exposed, hidden = splits.ttft[slow], splits.exposed[slow], splits.hidden[slow]
    least, most = int(ttft.min()), int(ttft.max())
    return leader_of(Band("slow", least, len(slow), least, most, exposed.mean(axis=0), hidden.mean(axis=0))).classes


def _before(regime: Regime, timed: Splits, until: int) -> Before | None:
    earlier = timed.select(timed.timed & (timed.first_token < until) & (timed.first_token >= (regime.since or 0)))
    if not len(earlier):
        return None
    bands = gather_bands(earlier.ttft, earlier.exposed, earlier.hidden, late_by(earlier))
    reserved = gather_held(replace(earlier, now=until), RESERVED, kv_blocks(earlier.engines))
    return Before(int(earlier.first_token.min()), until, bands, gather_overlap(earlier), regime.manner, reserved)

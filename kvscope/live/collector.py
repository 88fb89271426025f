"""From batches to snapshots: reading and drawing are two loops, and this is the reading one."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np

from kvscope.analysis.objectives import Objectives
from kvscope.analysis.summary import without
from kvscope.core.hosts import Hosts
from kvscope.core.stream import SECOND, Limits, Stream
from kvscope.live.feed import Batch, Feed, Fleeting
from kvscope.live.gaps import Gaps
from kvscope.live.history import History, when
from kvscope.live.regime import Regime, advanced
from kvscope.live.replay import Replay
from kvscope.live.scoped import Scoped
from kvscope.live.snapshot import Rates, Snapshot
from kvscope.live.trend import Trend
from kvscope.model.errors import InputError
from kvscope.model.events import Events, picked
from kvscope.model.requests import State, Tally
from kvscope.model.splits import Splits
from kvscope.probe.vocabulary import UNKNOWN

STRIDE_NS = SECOND
"""A batch that spans more time than this (the rings' past, a fast replay) is taken in strides, so that nothing that
happened within it is missed."""
MOST_STRIDES = 60
LAG_S = 0.53
"""An event is on the screen at about so long after it came, at the latest: the next reading begins in time for that."""
SHARES = ((1_000, 0.024), (20_000, 0.21))
"""Events per second, and of one core, at most, for reading them: a picture that takes long to make is made less
often. Between them as they lie; drawing takes about as much again."""
PATIENCE_S = 1.2
"""What few events may have to wait for that: a picture comes so often at least, up to the greatest share."""
SHARE_OF_REPLAY = 0.5
"""The same where no engine is near: more of it plays faster."""


@dataclass(frozen=True)
class Settings:
    """What a picture is of."""

    window_ns: int = 60 * SECOND
    objectives: Objectives | None = None
    without: str = ""
    """requests whose id holds this are left out; empty: none"""


class Collector:
    """Owns everything that grows. One thread at a time."""

    def __init__(self, feed: Feed, settings: Settings | None = None) -> None:
        self.feed = feed
        self.settings = settings or Settings()
        self._begin_anew()

    def _begin_anew(self) -> None:
        kept = 2 * self.settings.window_ns
        self._stream = Stream(Limits(sweep_ns=2 * SECOND), Hosts())
        self._recent = self._stream.look()[1]
        self._history, self._scoped, self._trend = History(self._recent, kept), Scoped(kept), Trend()
        self._regime: Regime | None = None
        self._begun: int | None = None
        self._answered = self._last = UNKNOWN
        self._pace, self._counts, self._gaps = Pace(), Counts(kept), Gaps(kept)

    def step(self) -> Snapshot:
        """Read what is new and draw a picture of all of it. InputError: as the feed's poll."""
        batch = self.feed.poll()
        if batch.restart:
            self._begin_anew()
        self._stream.hosts = self._stream.hosts.hearing(batch.exchanges)
        for events, now in strides(batch.events, batch.now):
            self._take(events, now)
        self._gaps.add(self._scoped.processes, batch.now)
        return self._snapshot(batch)

    def _take(self, events: Events, now: int) -> None:
        if len(events) and self._begun is None:
            self._begun = int(events.rows["t"].min())
        over, answered, waiting = self._stream.advance(events, now)
        if text := self.settings.without:
            over, answered, waiting = (
                [without(part, text)[0] for part in over],
                *(without(part, text)[0] for part in (answered, waiting)),
            )
        self._history.add(over, answered, now)
        for part in (*over, answered):
            self._answered = max(self._answered, int(part.first_token.max(initial=UNKNOWN)))
        self._last = max(self._last, *(int(when(part).max(initial=UNKNOWN)) for part in (*over, answered, waiting)))
        self._scoped.add(self._stream.hosts.moved(events), now)
        self._pace.add(len(events), now)
        self._counts.add(self._stream.tally, now)
        self._recent = self._history.window(now - self.settings.window_ns, waiting)
        self._regime = advanced(self._regime, self._recent, now)
        self._trend.add(self._recent, now)

    def _snapshot(self, batch: Batch) -> Snapshot:
        now, asked = batch.shown, self.settings.window_ns
        since = self._regime.since if self._regime else None
        begin = max(now - asked, *(ns for ns in (since, self._begun) if ns is not None), UNKNOWN)
        window = self._window(begin, now)
        return Snapshot(
            source=self.feed.name,
            flow=batch.flow,
            remark=batch.remark,
            faults=batch.faults,
            notes=batch.notes,
            first=batch.first,
            now=now,
            wall_ns=batch.wall_ns,
            begun=self._begun,
            answered=None if self._answered == UNKNOWN else self._answered,
            last=None if self._last == UNKNOWN else self._last,
            window_ns=asked,
            begin=max(begin, self._history.floor + 1),
            window=window,
            cut=self._history.floor >= begin,
            scoped=self._scoped.since(begin),
            tally=self._stream.tally,
            regime=self._regime,
            trend=self._trend.points,
            rates=Rates(self._pace.per_second(now), _first_tokens(window, now)),
            objectives=self.settings.objectives,
            heard=self._scoped.heard,
            gaps=self._gaps.since(begin),
            without=self.settings.without,
        )

    def _window(self, begin: int, now: int) -> Splits:
        window = replace(self._recent, now=now, tally=self._counts.since(begin))
        if begin <= now - self.settings.window_ns:
            return window
        return window.select((when(window) >= begin) | window.in_state(State.UNFINISHED))

    def run(
        self, stop: threading.Event, publish: Callable[[Snapshot], None], give_up: Callable[[InputError], None]
    ) -> None:
        """Publish a snapshot some twice a second, less often where that would take too much of a core."""
        usual = 0.0
        with self.feed.ahead() if isinstance(self.feed, Fleeting) else nullcontext():
            while not stop.is_set():
                begun = time.thread_time()
                try:
                    snapshot = self.step()
                except InputError as error:
                    give_up(error)
                    return
                publish(snapshot)
                took = time.thread_time() - begun
                usual += (took - usual) / 4 if usual else took
                most = SHARE_OF_REPLAY if isinstance(self.feed, Replay) else SHARES[-1][1]
                stop.wait(rest_s(usual, snapshot.rates.events, most))


def rest_s(usual: float, per_second: float, most: float) -> float:
    """Seconds to rest after a reading. `usual`: CPU seconds that one takes; so many events come per second; `most`: of
    one core, at most."""
    rates, shares = zip(*SHARES, strict=True)
    modest = usual / min(most, float(np.interp(per_second, rates, shares)))
    # What comes right after a reading waits for this one's end, the rest, the next one's end, and its drawing.
    return max(LAG_S - 4 * usual, min(modest, PATIENCE_S), usual / most)


class Counts:
    """What had been counted, by time: so that a loss stands beside the numbers of its time, and not for ever."""

    def __init__(self, kept_ns: int) -> None:
        self._kept_ns = kept_ns
        self._known: deque[tuple[int, Tally]] = deque([(UNKNOWN, Tally())])

    def add(self, tally: Tally, now: int) -> None:
        """All that was counted by `now`."""
        if tally != self._known[-1][1]:
            self._known.append((now, tally))
        while len(self._known) > 1 and self._known[1][0] < now - self._kept_ns:
            self._known.popleft()

    def since(self, begin: int) -> Tally:
        """What was counted after `begin` (ns); what the rings had lost before they were read counts as of then."""
        before = [tally for at, tally in self._known if at < begin]
        return self._known[-1][1] - (before[-1] if before else Tally())


class Pace:
    """Events per second of the last few seconds."""

    def __init__(self, span_ns: int = 5 * SECOND) -> None:
        self._span_ns = span_ns
        self._counts: list[tuple[int, int]] = []

    def add(self, events: int, now: int) -> None:
        """So many came, by `now`."""
        self._counts.append((now, events))
        while self._counts and self._counts[0][0] < now - self._span_ns:
            del self._counts[0]

    def per_second(self, now: int) -> float:
        """0 before there was time to tell."""
        if len(self._counts) < 2:
            return 0.0
        span = max(now - self._counts[0][0], 1)
        return sum(events for _, events in self._counts[1:]) / span * SECOND


def strides(events: Events, now: int) -> Iterator[tuple[Events, int]]:
    """The batch in pieces, oldest first, each with the clock at its end; the last is at `now`. What is long past
    comes in one."""
    times = events.rows["t"]
    first = max(int(times.min(initial=now)), now - MOST_STRIDES * STRIDE_NS)
    if now - first <= 2 * STRIDE_NS:
        yield events, now
        return
    order = np.argsort(times, kind="stable")
    edges = np.arange(first + STRIDE_NS, now, STRIDE_NS)
    pieces = np.split(order, np.searchsorted(times[order], edges))
    for piece, edge in zip(pieces, [*edges.tolist(), now], strict=True):
        if len(piece) or edge == now:
            yield Events(picked(events.rows, piece), events.processes, events.texts), edge


def _first_tokens(window: Splits, now: int, span_ns: int = 5 * SECOND) -> float:
    """Per second, over the last few."""
    recent = (window.first_token != UNKNOWN) & (when(window) > now - span_ns)
    return float(recent.sum()) / span_ns * SECOND

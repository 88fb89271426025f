"""Which triggers the requests and failures of this moment set off. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kvscope.incidents.triggers import FAILED, LEAST, QUANTITIES, TTFT, Trigger
from kvscope.model.events import Events
from kvscope.model.splits import Splits
from kvscope.probe.vocabulary import LEG_CODE, LEGS, MOMENT_CODE, MOMENTS, REASON_CODE, REASONS, UNKNOWN, VALUES

MOST_NAMED = 20
"""Requests that are named of those that set off one trigger at a time."""
REMEMBERED = 50_000
"""Requests, at least, that are known to have been judged."""

_FAILURE = MOMENT_CODE["failed"]
_OWN_WORDS = VALUES[MOMENTS[_FAILURE]].index("reason_text")


@dataclass(frozen=True)
class Culprit:
    """A request that was beyond a limit, or failed."""

    request: str
    value_ns: int | None = None
    origin_ns: int | None = None
    """When it came, ns of the events' clock, where that is known."""
    first_token_ns: int | None = None
    prefill_engine: str = ""
    decode_engine: str = ""
    reason: str = ""
    """Of a failure: the leg and why."""


@dataclass(frozen=True)
class Fired:
    """A trigger was set off."""

    trigger: Trigger
    at: int
    """ns of the events' clock: when it was seen"""
    value_ns: int | None
    """The worst; of a quantile, the quantile."""
    count: int
    """How many requests were beyond it now, or failed; of a quantile, those of its span at or above it."""
    culprits: tuple[Culprit, ...]
    """The worst of them first."""

    @property
    def origin(self) -> int:
        """When the first of those that are named came; when it was seen, where that is not known."""
        return min((each.origin_ns for each in self.culprits if each.origin_ns is not None), default=self.at)


@dataclass
class _Seen:
    """Keys that were met: in two halves, of which the older is forgotten as a whole."""

    newer: set[int] = field(default_factory=set)
    older: set[int] = field(default_factory=set)

    def take(self, splits: Splits) -> np.ndarray:
        """(n,) bool: not met before."""
        keys = zip(splits.request.tolist(), splits.peer_request.tolist(), strict=True)
        return np.array([self._take(*pair) for pair in keys], bool)

    def _take(self, request: int, peer: int) -> bool:
        """One that was met with nothing but its prefill leg has another id once it has both."""
        known = any(key in half for half in (self.newer, self.older) for key in (request, peer))
        self.newer.add(request)
        if len(self.newer) > REMEMBERED:
            self.newer, self.older = set(), self.newer
        return not known


@dataclass
class _Window:
    """Times of requests by their first tokens."""

    trigger: Trigger
    times: deque[tuple[int, int, Culprit | None]] = field(default_factory=deque)
    """(first token, ns, who it was: of those beyond the limit alone)"""
    beyond: bool = False

    def add(self, splits: Splits, now: int) -> Fired | None:
        """Set off with the quantile, and those at or above it, if it has just gone beyond the limit."""
        values = QUANTITIES[self.trigger.name](splits)
        for row, (token, ns) in enumerate(zip(splits.first_token.tolist(), values.tolist(), strict=True)):
            self.times.append((token, ns, _slow_one(splits, row, ns) if ns > self.trigger.limit_ns else None))
        while self.times and self.times[0][0] < now - self.trigger.window_ns:
            self.times.popleft()
        if len(self.times) < LEAST:
            self.beyond = False
            return None
        value = round(float(np.quantile([ns for _, ns, _ in self.times], self.trigger.quantile or 0)))
        before, self.beyond = self.beyond, value > self.trigger.limit_ns
        if before or not self.beyond:
            return None
        made = [(ns, culprit) for _, ns, culprit in self.times if culprit and ns >= value]
        made.sort(key=lambda each: -each[0])
        return Fired(self.trigger, now, value, len(made), tuple(culprit for _, culprit in made[:MOST_NAMED]))


class Judge:
    """Holds each request that was answered, waits, or failed to the triggers: to each of them once."""

    def __init__(self, triggers: Sequence[Trigger], since: int, text: Callable[[int], str]) -> None:
        """What came before `since` (ns of the events' clock) is not judged. `text`: of a key, as far as it is known"""
        self._since, self._text = since, text
        self._limits = [each for each in triggers if each.name != FAILED and each.quantile is None]
        self._failures = [each for each in triggers if each.name == FAILED]
        self._windows = [_Window(each) for each in triggers if each.quantile is not None]
        self._judged, self._waited = _Seen(), {each: _Seen() for each in self._limits if each.name == TTFT}

    def __bool__(self) -> bool:
        return bool(self._limits or self._failures or self._windows)

    def judged(
        self, events: Events, over: Sequence[Splits], answered: Splits, waiting: Splits, now: int
    ) -> list[Fired]:
        """What is set off. `waiting`: requests without a first token, as they stand at `now`."""
        fired = [*self._failed(events, now)]
        for splits in (answered, *over):
            timed = splits.select(splits.timed & (splits.first_token >= self._since))
            fresh = timed.select(self._judged.take(timed))
            if len(fresh):
                fired += self._answered(fresh, now)
        return [*fired, *self._overdue(waiting, now)]

    def _answered(self, splits: Splits, now: int) -> Iterable[Fired]:
        for trigger in self._limits:
            values = QUANTITIES[trigger.name](splits)
            if trigger.name == TTFT:
                values = np.where(self._waited[trigger].take(splits), values, 0)
            if (values > trigger.limit_ns).any():
                yield _beyond(trigger, splits, values, now)
        for window in self._windows:
            fired = window.add(splits, now)
            if fired is not None:
                yield fired

    def _overdue(self, waiting: Splits, now: int) -> Iterable[Fired]:
        """Those that have waited longer for a first token than they may: it need not come for that to be known."""
        for trigger, seen in self._waited.items():
            late = waiting.select((waiting.age > trigger.limit_ns) & (waiting.origin >= max(self._since, 0)))
            fresh = late.select(seen.take(late))
            if len(fresh):
                yield _beyond(trigger, fresh, fresh.age, now)

    def _failed(self, events: Events, now: int) -> Iterable[Fired]:
        if not self._failures or not len(events):
            return
        rows = events.rows[(events.rows["moment"] == _FAILURE) & (events.rows["t"] >= self._since)]
        for trigger in self._failures:
            mine = rows[rows["reason"] == REASON_CODE[trigger.reason]] if trigger.reason else rows
            if len(mine):
                culprits = tuple(self._failed_one(events, row) for row in mine[:MOST_NAMED])
                yield Fired(trigger, now, None, len(mine), culprits)

    def _failed_one(self, events: Events, row: np.void) -> Culprit:
        leg, code, own_words = int(row["leg"]), int(row["reason"]), int(row["values"][_OWN_WORDS])
        words = REASONS[code] if code else self._text(own_words & 2**64 - 1)
        engine = events.processes[int(row["process"])].engine
        prefill, decode = (engine if leg == LEG_CODE[side] else "" for side in ("prefill", "decode"))
        reason = f"{LEGS[leg] if leg < len(LEGS) else LEGS[0]} {words}".strip()
        request = self._text(int(row["request"]))
        return Culprit(request, prefill_engine=prefill, decode_engine=decode, reason=reason)


def _beyond(trigger: Trigger, splits: Splits, values: np.ndarray, now: int) -> Fired:
    order = np.argsort(-values, kind="stable")
    beyond = int((values > trigger.limit_ns).sum())
    named = order[: min(beyond, MOST_NAMED)]
    culprits = tuple(_slow_one(splits, row, int(values[row])) for row in named.tolist())
    return Fired(trigger, now, int(values[order[0]]), beyond, culprits)


def _slow_one(splits: Splits, row: int, value: int) -> Culprit:
    times = (int(column[row]) for column in (splits.origin, splits.first_token))
    origin, token = (None if each == UNKNOWN else each for each in times)
    indices = (int(column[row]) for column in (splits.prefill_engine, splits.decode_engine))
    prefill, decode = (splits.engines[index].engine if index >= 0 else "" for index in indices)
    return Culprit(splits.text(row), value, origin, token, prefill, decode)

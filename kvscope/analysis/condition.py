"""What state the data is in: what was seen whole, what in part, what was lost. Stands before every number."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from kvscope.model.clockpair import ClockPair
from kvscope.model.requests import STATES, State, Tally
from kvscope.model.shapes import SHAPES, missing_name
from kvscope.model.splits import MARKS, Splits
from kvscope.model.stages import STAGES
from kvscope.probe.vocabulary import LEGS, MOMENTS, REASONS, UNKNOWN

TEXT_KEY = 0xFFFF_FFFF_FFFF_FFFF


@dataclass(frozen=True)
class Waiting:
    """Requests that have not finished."""

    count: int = 0
    oldest_ns: int = 0
    oldest: str = ""
    """Id of the oldest."""
    last_moments: tuple[tuple[str, int], ...] = ()
    """(`decode registration_sent`, requests), most frequent first"""


@dataclass(frozen=True)
class Clocks:
    """What times between hosts are worth."""

    pairs: tuple[ClockPair, ...] = ()
    """Each two hosts between which messages went"""
    requests: int = 0
    """Timed requests between hosts"""
    bound_p50_ns: int = 0
    """By how much their times between hosts may be wrong, at the median"""
    bound_most_ns: int = 0
    uncertain: tuple[tuple[str, int], ...] = ()
    """(stage, timed requests in which it was not longer than it may be wrong by), most frequent first"""

    @property
    def mostly_uncertain(self) -> tuple[str, ...]:
        """Stages of which that is so in at least half of the requests."""
        return tuple(stage for stage, number in self.uncertain if 2 * number >= self.requests)


@dataclass(frozen=True)
class Condition:
    """Counts of what was seen."""

    requests: int
    states: dict[State, int]
    """every state, zero included"""
    shapes: tuple[tuple[str, int], ...]
    """(shape, requests) of complete requests, most frequent first"""
    missing: tuple[tuple[str, int], ...]
    """(moment, incomplete requests without it), most frequent first"""
    one_legged: tuple[tuple[str, int], ...]
    """(`decode d0`, requests seen from there only), most frequent first"""
    unaligned: tuple[tuple[str, tuple[str, ...]], ...]
    """(`prefill p0 on 4f2c81d0, decode d0 on 9a07be15`, ids of the requests between those clocks), most first"""
    dark: tuple[tuple[str, str], ...]
    """(engine, why) of processes that run without instrumentation"""
    waiting: Waiting
    failures: tuple[tuple[str, int], ...]
    """(`prefill push_handshake_failed`, requests), most frequent first"""
    marks: tuple[tuple[str, int], ...]
    tally: Tally
    seconds: float
    """From the first origin to the latest event."""
    timed: int
    """Requests that enter percentiles: complete, with a first token."""
    clocks: Clocks = field(default_factory=Clocks)

    @property
    def over(self) -> int:
        """Requests that are not under way any more: shares are of these, in a report as in a live view."""
        return self.requests - self.states[State.UNFINISHED]

    @property
    def broken(self) -> int:
        """Requests of whose account something is missing, or does not compare."""
        return sum(self.states[state] for state in (State.INCOMPLETE, State.UNMATCHED, State.UNALIGNED))

    @property
    def trouble(self) -> tuple[tuple[str, int], ...]:
        """Counts of the tally that should be zero and are not."""
        names = ("lost", "duplicates", "late", "out_of_bounds", "strays", "ambiguous", "order_violations")
        counts = [(name, int(getattr(self.tally, name))) for name in (*names, "stale_matches", "evicted")]
        return tuple((name, value) for name, value in counts if value)


def gather_condition(splits: Splits) -> Condition:
    """Count what is in `splits`."""
    return Condition(
        requests=len(splits),
        states={state: int((splits.state == code).sum()) for code, state in enumerate(STATES)},
        shapes=_shapes(splits),
        missing=_missing(splits),
        one_legged=_one_legged(splits),
        unaligned=_unaligned(splits),
        dark=tuple((engine.engine, engine.note) for engine in splits.engines if engine.note),
        waiting=_waiting(splits),
        failures=_failures(splits),
        marks=tuple((name, n) for bit, name in enumerate(MARKS) if (n := int(((splits.marks >> bit) & 1).sum()))),
        tally=splits.tally,
        seconds=seconds_seen(splits),
        timed=int(splits.timed.sum()),
        clocks=gather_clocks(splits),
    )


def gather_clocks(splits: Splits) -> Clocks:
    """Of what lies between hosts; nothing where one host is all."""
    rows = np.flatnonzero(splits.timed & (splits.between_clocks != 0))
    if not len(rows):
        return Clocks(splits.clocks)
    found = splits.select(rows)
    bounds, short = np.sort(found.clock_bound), found.uncertain.sum(axis=0).tolist()
    uncertain = Counter({stage.name: number for stage, number in zip(STAGES, short, strict=True) if number})
    return Clocks(splits.clocks, len(rows), int(bounds[(len(rows) - 1) // 2]), int(bounds[-1]), _ranked(uncertain))


def seconds_seen(splits: Splits) -> float:
    """From the first origin to the latest event on its clock; 0 without requests."""
    return int(splits.age[(splits.origin != UNKNOWN) | splits.marked("unaligned")].max(initial=0)) / 1e9


def _ranked(counter: Counter[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(counter.items(), key=lambda item: (-item[1], item[0])))


def _shapes(splits: Splits) -> tuple[tuple[str, int], ...]:
    codes = splits.shape[splits.complete]
    return _ranked(Counter(SHAPES[code].name for code in codes.tolist()))


def _missing(splits: Splits) -> tuple[tuple[str, int], ...]:
    counter: Counter[str] = Counter()
    rows = splits.in_state(State.INCOMPLETE)
    for code in np.unique(splits.shape[rows]).tolist():
        absent = splits.missing[rows & (splits.shape == code)].sum(axis=0)
        for node in np.flatnonzero(absent).tolist():
            counter[missing_name(SHAPES[code], node)] += int(absent[node])
    return _ranked(counter)


def _one_legged(splits: Splits) -> tuple[tuple[str, int], ...]:
    counter: Counter[str] = Counter()
    for leg, column in (("prefill", splits.prefill_engine), ("decode", splits.decode_engine)):
        for index in column[splits.in_state(State.ONE_LEGGED) & (column >= 0)].tolist():
            counter[f"{leg} {splits.engines[index].engine}"] += 1
    return _ranked(counter)


def _unaligned(splits: Splits) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found: dict[str, list[str]] = {}
    for row in np.flatnonzero(splits.marked("unaligned")).tolist():
        found.setdefault(_where(splits, row), []).append(splits.text(row))
    ranked = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple((where, tuple(requests)) for where, requests in ranked)


def _where(splits: Splits, row: int) -> str:
    """Both engines, and where their clocks run."""
    legs = (("prefill", int(splits.prefill_engine[row])), ("decode", int(splits.decode_engine[row])))
    told = ((leg, splits.engines[engine]) for leg, engine in legs if engine >= 0)
    return ", ".join(f"{leg} {engine.engine} on {engine.host or 'a host not told'}" for leg, engine in told)


def _waiting(splits: Splits) -> Waiting:
    rows = np.flatnonzero(splits.in_state(State.UNFINISHED))
    if not len(rows):
        return Waiting()
    age = splits.age[rows]
    oldest = int(rows[age.argmax()])
    last = splits.last_moment[rows, :2].tolist()
    counter = Counter(f"{LEGS[leg]} {MOMENTS[moment]}" for leg, moment in last)
    return Waiting(len(rows), int(age.max()), splits.text(oldest), _ranked(counter))


def _failures(splits: Splits) -> tuple[tuple[str, int], ...]:
    counter: Counter[str] = Counter()
    for leg, reason, own in splits.failure[splits.failure[:, 0] != 0].tolist():
        known = REASONS[reason] if 0 < reason < len(REASONS) else ""
        counter[f"{LEGS[leg]} {known or splits.texts.get(own & TEXT_KEY, 'failed')}"] += 1
    return _ranked(counter)

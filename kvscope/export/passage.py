"""A recording from its first event to its last, bit by bit: bounded memory, whatever its length."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

import numpy as np

from kvscope.core.legs import within_bounds
from kvscope.core.stream import Limits, Stream
from kvscope.export.ahead import ahead
from kvscope.export.interrupts import undisturbed
from kvscope.export.needed import Needed
from kvscope.model.events import EVENT, Events, picked
from kvscope.model.splits import Splits
from kvscope.sources.past import Past
from kvscope.sources.sidebyside import side_by_side

MOST = 100_000
"""Events of a part, roughly."""
EVER = -(2**62)


@dataclass(frozen=True)
class Part:
    """A stretch of a recording."""

    events: Events
    """By time, and later than those of the part before. Every part has all processes, as they were known in the end."""
    over: tuple[Splits, ...]
    """Requests that are known to be over by now, each in one part; in the last part all others."""
    notes: tuple[str, ...] = ()
    """In the last part: what reading had to say."""
    given_up: int = 0
    """In the last part: requests that had not ended, and were let go for their silence or their number."""


class Sink(Protocol):
    """What a recording is written into."""

    def take(self, part: Part) -> None:
        """Write it. InputError, OSError: it cannot be written."""

    def finish(self) -> str:
        """Complete what was written; returns what it is, in one sentence, for the person who waits."""

    def abandon(self) -> None:
        """It ended early: leave nothing half done behind that could be taken for whole."""


def passage(
    past: Past,
    begin: int | None = None,
    end: int | None = None,
    told: Callable[[float], None] = lambda share: None,
    limits: Limits | None = None,
    stream: Stream | None = None,
) -> Iterator[Part]:
    """Events of [begin, end] (ns on the axis of `past`; None: all) and their requests; `told` hears how far: 0 to 1.

    Requests are split from the events of the stretch alone, by `stream`: a new one within `limits` if none is given.
    """
    past = side_by_side(past)
    limits = limits or Limits()
    stream, found = stream or Stream(limits), np.zeros(len(past.processes), np.int64)
    needed = Needed(past.processes, limits.history_ns)
    at, last = EVER if begin is None else begin - 1, past.end if end is None else min(end, past.end)
    first = past.begin if begin is None else begin
    for begun, until, events, held in ahead(_read(past, at, last)):
        found += held
        yield Part(events, tuple(stream.feed(replace(events, rows=needed.of(events.rows, begun, until)))))
        told(min(1.0, max(0.0, (until - first) / max(1, last - first))))
    all_of_it = begin is None and end is None
    processes, notes = past.settled(found) if all_of_it else (past.processes, past.notes)
    rest = Events(np.empty(0, EVENT), processes, {}, past.impossible)
    over = (*stream.feed(rest), *stream.close())
    yield Part(rest, over, notes, stream.tally.evicted)


def _read(past: Past, at: int, last: int) -> Iterator[tuple[int, int, Events, np.ndarray]]:
    """(a, b, the events of (a, b] by time, those that can be; how many of each process were there, whatever they are),
    from `at` to `last`."""
    processes = len(past.processes)
    while at < last:
        until = past.reach(at, last, MOST)
        events = past.whole(at, until)
        held = np.bincount(events.rows["process"], minlength=processes)
        rows, impossible = within_bounds(events)
        rows = picked(rows, np.argsort(past.when(rows), kind="stable"))
        yield at, until, replace(events, rows=rows, impossible=impossible), held
        at = until


def export(parts: Iterator[Part], sinks: Iterable[Sink]) -> list[str]:
    """Put all parts into all sinks; returns what each has written. Where one fails, or cannot be made when it is asked
    for, all are abandoned."""
    made: list[Sink] = []
    try:
        source = iter(sinks)
        while _added(made, source):
            pass
        for part in parts:
            for sink in made:
                sink.take(part)
        return [sink.finish() for sink in made]
    except BaseException:
        with undisturbed():
            for sink in made:
                sink.abandon()
        raise


def _added(made: list[Sink], source: Iterator[Sink]) -> bool:
    """Take one more, if there is one. A sink that is made, and not in the list yet, could not be abandoned."""
    with undisturbed():
        found = list(islice(source, 1))
        made += found
    return bool(found)

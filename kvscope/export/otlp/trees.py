"""Requests -> spans, each in the trace it belongs to and at the time of day it was."""

from __future__ import annotations

from kvscope.export.otlp.contexts import Contexts
from kvscope.export.otlp.identity import Context
from kvscope.export.otlp.table import Request, Table
from kvscope.export.otlp.tree import Batch, Told, Tree
from kvscope.export.pieces import DECODE, PREFILL
from kvscope.model.splits import Splits
from kvscope.model.wallclock import WallClock
from kvscope.probe.vocabulary import UNKNOWN

LAST = 2**63 - 1
"""ns since 1970, in the year 2262: what reads spans has no later time, and none before 0."""


class Trees:
    """Makes the spans of requests that are over."""

    def __init__(self, clock: WallClock, contexts: Contexts) -> None:
        self._clock, self._contexts = clock, contexts
        self.requests = 0
        self.joined = 0
        """Of these, how many are in a trace that somebody told."""
        self.timeless = 0
        """Requests left out: nobody told what time of day their moments were at."""
        self.impossible = 0
        """Requests left out: by what was told, their moments were at times of day that no span can have."""

    def grow(self, splits: Splits, batch: Batch) -> None:
        """Add the spans of these requests to a batch."""
        table = Table(splits)
        shared: dict[tuple[int, int], Context] = {}
        for row in range(len(splits)):
            request = table.request(row)
            offsets = self._offsets(request)
            told = self._told(request)
            if offsets is None:
                self.timeless += 1
                continue
            if not _possible(request, offsets):
                self.impossible += 1
                continue
            self.requests += 1
            self.joined += told.parent is not None
            Tree(request, told, offsets, batch).grow(shared)

    def _offsets(self, request: Request) -> dict[int, int] | None:
        """Leg -> what to add to its moments; None where one is not known. Legs of one clock share one reading, so that
        what lies between them is as long as it was."""
        hosts = {leg: engine.host for leg, engine in request.engines.items()}
        found = {leg: self._clock.offset(host, request.reach[leg][0]) for leg, host in hosts.items()}
        known = {leg: offset for leg, offset in found.items() if offset is not None}
        if len(known) < len(found) or not found:
            return None
        return known if request.unaligned else dict.fromkeys(known, known[max(known)])

    def _told(self, request: Request) -> Told:
        """The trace that the request is in, whether told or made."""
        router = self._contexts.of_router(request.text)
        legs = {leg: self._contexts.of_leg(leg, key) for leg, key in request.keys.items()}
        parent = router or legs.get(DECODE) or legs.get(PREFILL)
        links = {leg: each for leg, each in legs.items() if each is not None and each != parent}
        return Told(parent, links)


def _possible(request: Request, offsets: dict[int, int]) -> bool:
    """Whether every time of its spans can be written."""
    told = [t for t in (request.origin, request.ended, *request.times) if t != UNKNOWN]
    told += [t for reach in request.reach.values() for t in reach]
    told += [t for piece in request.pieces for t in piece[-2:]]
    return min(told) + min(offsets.values()) >= 0 and max(told) + max(offsets.values()) <= LAST

"""A recording as packets of a trace: what engines did at once, requests and their moments when they are over."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kvscope.export.passage import Part
from kvscope.export.perfetto.about import About
from kvscope.export.perfetto.arguments import Arguments
from kvscope.export.perfetto.axis import Axis
from kvscope.export.perfetto.counters import Handoffs, Load
from kvscope.export.perfetto.drains import Drains
from kvscope.export.perfetto.flows import NO_REQUEST
from kvscope.export.perfetto.legs import SIDES, RequestLegs
from kvscope.export.perfetto.meetings import BEGUN, ENDED, Handshakes
from kvscope.export.perfetto.packets import Packets
from kvscope.export.perfetto.places import Places
from kvscope.export.perfetto.requests import Requests
from kvscope.export.perfetto.samples import Samples
from kvscope.export.perfetto.steps import STEP, Steps
from kvscope.export.perfetto.threads import STARTED, Threads
from kvscope.export.perfetto.tracks import Tracks
from kvscope.export.perfetto.waiting import Released, Waiting
from kvscope.export.pieces import LEGS, pieces, reaches
from kvscope.model.events import picked
from kvscope.model.membership import among
from kvscope.model.splits import Splits
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE, UNKNOWN
from kvscope.stacks.reading import Stacks

_LOAD = MOMENT_CODE["load"]
_PREFILL, _DECODE = LEGS.index(LEG_CODE["prefill"]), LEGS.index(LEG_CODE["decode"])


class Trace:
    """Takes a recording bit by bit and hands packets to `write`."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._packets, self._axis = Packets(write), Axis()
        self._tracks = Tracks(self._packets.one)
        self._places = Places(self._tracks, self._axis)
        self._arguments = Arguments(self._packets.names, self._places)
        self._threads = Threads(self._packets, self._places, self._arguments)
        self._steps = Steps(self._packets, self._places, self._arguments)
        self._load = Load(self._packets, self._tracks, self._places)
        self._handshakes = Handshakes(self._packets, self._places, self._arguments, self._threads)
        self._lanes = Requests(self._packets, self._tracks, self._places.requests)
        self._legs = RequestLegs(self._packets, self._tracks, self._places)
        self._handoffs = Handoffs(self._packets, self._tracks, self._places.requests)
        self._about = About(self._packets, self._places, self._axis)
        self._drains = Drains(self._packets, self._places)
        self._samples = Samples(self._packets, self._places)
        self._waiting = Waiting()
        self.requests = 0
        """Requests written."""

    @property
    def events(self) -> int:
        """Events taken."""
        return self._about.events

    @property
    def packets(self) -> int:
        """Packets written."""
        return self._packets.count

    def take(self, part: Part) -> None:
        """Write what can be written of it."""
        self._places.meet(part.events)
        rows = part.events.rows
        self._about.meet(rows)
        self._arguments.know(part.events.texts)
        self._draw_engines(picked(rows, rows["request"] == 0))
        self._drains.draw(rows)
        self._waiting.add(picked(rows, rows["request"] != 0), self._places.engines, part.events.texts)
        self._arguments.know(self._waiting.texts)
        for splits in part.over:
            self._draw_requests(splits)
        self._draw_moments(self._waiting.overdue())
        self._waiting.forget()

    @property
    def samples(self) -> int:
        """Sampled stacks written."""
        return self._samples.drawn

    def complete(self, stacks: Sequence[Stacks] = ()) -> None:
        """Write what was held back, and stacks that were sampled meanwhile."""
        self._arguments.know(self._waiting.texts)
        self._draw_moments(self._waiting.rest())
        self._handoffs.draw()
        for each in stacks:
            self._samples.draw(each, *self._about.reach)
        self._about.draw()
        self._places.call()
        self._tracks.describe()

    def _draw_engines(self, rows: np.ndarray) -> None:
        """Moments of no request."""
        moment = rows["moment"]
        self._steps.draw(picked(rows, moment == STEP))
        self._load.draw(picked(rows, moment == _LOAD))
        self._handshakes.draw(picked(rows, among(moment, BEGUN, ENDED)))
        self._threads.started(picked(rows, moment == STARTED))
        others = picked(rows, ~among(moment, STEP, _LOAD, BEGUN, ENDED, STARTED))
        for each in np.unique(others["moment"]).tolist():
            self._threads.instants(others[others["moment"] == each], each)

    def _draw_requests(self, splits: Splits) -> None:
        if not len(splits):
            return
        reach = reaches(splits)
        here = np.array([self._places.number_of(engine) for engine in splits.engines] + [-1], np.int64)
        prefill, decode = here[splits.prefill_engine], here[splits.decode_engine]
        shift = self._places.engine_shifts()
        # A request is where its decode leg is: its path is told on one host alone.
        mine = shift[np.where(reach[:, _DECODE, 0] != UNKNOWN, decode, prefill)]
        begin, end = _extent(splits, reach)
        found = pieces(splits)
        found["begin"] += mine[found["row"]]
        found["end"] += mine[found["row"]]
        self._lanes.draw(splits, found, begin + mine, end + mine)
        for side, engine, leg in ((SIDES["prefill"], prefill, _PREFILL), (SIDES["decode"], decode, _DECODE)):
            self._legs.draw(splits, side, engine, reach[:, leg])
        self._handoffs.add(splits, mine)
        number = np.arange(self.requests, self.requests + len(splits))
        number[splits.marked("unaligned")] = NO_REQUEST  # an arrow between two clocks would tell a time between them
        self._draw_moments(self._waiting.release(splits, here[:-1], number))
        self.requests += len(splits)
        self._about.count(splits)

    def _draw_moments(self, released: Released) -> None:
        if len(released.rows):
            self._threads.draw(released.rows, released.number)


def _extent(splits: Splits, reach: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n,) i8 each: from origin to first token; of a request that had none from its first moment to its last, and where
    clocks do not compare, on the leg that it ended on."""
    last_leg = np.where(reach[:, _DECODE, 0] != UNKNOWN, _DECODE, _PREFILL)
    there = np.arange(len(splits)), last_leg
    alone = splits.marked("unaligned")
    known = reach[:, :, 0] != UNKNOWN
    first = np.where(known, reach[:, :, 0], np.iinfo(np.int64).max).min(axis=1, initial=np.iinfo(np.int64).max)
    last = reach[:, :, 1].max(axis=1)
    stamped = known.any(axis=1)
    first = np.where(alone, reach[there][:, 0], np.where(stamped, first, splits.last_moment[:, 2]))
    last = np.where(alone, reach[there][:, 1], np.where(stamped, last, splits.last_moment[:, 2]))
    timed = splits.timed
    return np.where(timed, splits.origin, first), np.where(timed, splits.first_token, last)

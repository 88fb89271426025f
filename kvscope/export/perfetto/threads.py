"""What happened to requests on each thread: transfers as slices, all other moments as instants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvscope.export.perfetto import colours
from kvscope.export.perfetto.arguments import Arguments
from kvscope.export.perfetto.flows import flows
from kvscope.export.perfetto.packets import Arg, Look, Packets
from kvscope.export.perfetto.places import CONNECTOR, Places
from kvscope.export.perfetto.spans import SPANS, Spans, spans
from kvscope.model.events import picked
from kvscope.model.membership import among
from kvscope.model.stages import STAGE
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE, MOMENTS, REASONS

STARTED = MOMENT_CODE["started"]
_DECODE, _FAILED = LEG_CODE["decode"], MOMENT_CODE["failed"]
_POSTS = tuple(MOMENT_CODE[name] for name in ("post_begun", "prepared", "posted"))


class Threads:
    """Draws moments on the threads where they happened."""

    def __init__(self, packets: Packets, places: Places, arguments: Arguments) -> None:
        self._packets, self._places, self._arguments = packets, places, arguments

    def draw(self, rows: np.ndarray, number: np.ndarray) -> None:
        """Moments (dtype EVENT). number: (n,) the request that each belongs to, below 0 where none is known."""
        reading = number[among(rows["moment"], *_POSTS) & (rows["leg"] == _DECODE)]
        flow = flows(rows, number, np.isin(number, reading))
        found, used = spans(rows, number)
        for each in found:
            self._draw_spans(rows, each, flow)
        for moment in np.unique(rows["moment"][~used]).tolist():
            at = np.flatnonzero(~used & (rows["moment"] == moment))
            self.instants(picked(rows, at), moment, flow[at])

    def instants(self, rows: np.ndarray, moment: int, flow: np.ndarray | None = None) -> None:
        """Moments of one kind."""
        args, colour = self._arguments.of(rows, moment), None
        if moment == _FAILED:
            colour = np.full(len(rows), self._packets.colours([colours.FAILURE])[0])
            self._draw_failures(rows, args)
        look = Look("moment", self._packets.called(MOMENTS[moment]), args, colour, flow)
        self._packets.instants(self._places.threads(rows["process"], rows["thread"]), self._places.times(rows), look)

    def started(self, rows: np.ndarray) -> None:
        """Engines and routers that started, with what they told of themselves."""
        for process in np.unique(rows["process"]).tolist():
            mine, told = rows[rows["process"] == process], self._places.processes[process].started
            args = [self._arguments.word(name, told[name], len(mine)) for name in sorted(told)]
            look = Look("moment", self._packets.called(MOMENTS[STARTED]), args)
            self._packets.instants(
                self._places.threads(mine["process"], mine["thread"]), self._places.times(mine), look
            )

    def _draw_failures(self, rows: np.ndarray, args: Sequence[Arg]) -> None:
        """Again, where they are seen before anything is unfolded."""
        told = [REASONS[code] if 0 < code < len(REASONS) else "another reason" for code in rows["reason"].tolist()]
        engines = [self._places.processes[number].engine for number in rows["process"].tolist()]
        names = [f"{engine}: {reason}" for engine, reason in zip(engines, told, strict=True)]
        colour = np.full(len(rows), self._packets.colours([colours.FAILURE])[0])
        look = Look("failure", self._packets.named(names, np.arange(len(rows))), args, colour)
        self._packets.instants(np.full(len(rows), self._places.requests), self._places.times(rows), look)

    def _draw_spans(self, rows: np.ndarray, spans: Spans, flow: np.ndarray) -> None:
        if not len(spans.first):
            return
        first, last = picked(rows, spans.first), picked(rows, spans.last)
        begins, ends = SPANS[spans.stage]
        args = [*self._arguments.who(first), *self._arguments.codes(last)]
        args += [*self._arguments.values(first, begins), *self._arguments.values(last, ends)]
        args = list({arg.name: arg for arg in args}.values())
        colour = np.full(len(first), self._packets.colours([colours.OF_CLASS[STAGE[spans.stage].cls]])[0])
        flow_ids = flow[spans.last] if spans.stage == "submit" else None
        look = Look("connector", self._packets.called(spans.stage), args, colour, flow_ids)
        begin, end = self._places.times(first), self._places.times(last)
        track = self._places.laned(CONNECTOR, first["process"], first["thread"], begin, end)
        self._packets.slices(track, begin, end, look)

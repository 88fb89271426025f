"""Handshakes: begun on one thread, ended on another, so that both ends are needed for a slice."""

from __future__ import annotations

import numpy as np

from kvscope.export.perfetto import colours
from kvscope.export.perfetto.arguments import Arguments
from kvscope.export.perfetto.packets import Look, Packets
from kvscope.export.perfetto.places import CONNECTOR, Places
from kvscope.export.perfetto.threads import Threads
from kvscope.model.stages import STAGE
from kvscope.probe.vocabulary import MOMENT_CODE, VALUES

BEGUN, ENDED = (MOMENT_CODE[name] for name in ("handshake_begun", "handshake_ended"))
_PEER = VALUES["handshake_begun"].index("peer_engine")
_OF_NO_REQUEST = 1 << 63


class Handshakes:
    """Draws handshakes on the threads where they ended; an arrow leads there from where each was begun."""

    def __init__(self, packets: Packets, places: Places, arguments: Arguments, threads: Threads) -> None:
        self._packets, self._places, self._arguments, self._threads = packets, places, arguments, threads
        self._open: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
        self._count = 0

    def draw(self, rows: np.ndarray) -> None:
        """Handshakes begun and ended (dtype EVENT), later than those before."""
        rows = rows[np.argsort(rows["t"], kind="stable")]
        begins, flow = np.array(rows["t"]), np.zeros(len(rows), np.uint64)
        for index, row in enumerate(rows):
            begins[index], flow[index] = self._paired(row)
        paired = (rows["moment"] == ENDED) & (flow != 0)
        for moment in (BEGUN, ENDED):
            mine = (rows["moment"] == moment) & ~paired
            if mine.any():
                self._threads.instants(rows[mine], moment, flow[mine])
        if paired.any():
            self._draw_slices(rows[paired], begins[paired], flow[paired])

    def _paired(self, row: np.void) -> tuple[int, int]:
        """(when it began, id of its flow; 0 where nobody saw it begin)"""
        key = (int(row["process"]), int(row["values"][_PEER]), int(row["rank"]))
        if row["moment"] == BEGUN:
            self._count += 1
            self._open.setdefault(key, []).append((int(row["t"]), _OF_NO_REQUEST + self._count))
            return self._open[key][-1]
        waiting = self._open.get(key, [])
        return waiting.pop(0) if waiting else (int(row["t"]), 0)

    def _draw_slices(self, rows: np.ndarray, begins: np.ndarray, flow: np.ndarray) -> None:
        begin, end = self._places.moved(rows["process"], begins), self._places.times(rows)
        colour = np.full(len(rows), self._packets.colours([colours.OF_CLASS[STAGE["handshake"].cls]])[0])
        args = self._arguments.of(rows, ENDED)
        look = Look("connector", self._packets.called("handshake"), args, colour, flow)
        track = self._places.laned(CONNECTOR, rows["process"], rows["thread"], begin, end)
        self._packets.slices(track, begin, end, look)

"""Counters: the load that engines tell, and how many requests are being handed over."""

from __future__ import annotations

import numpy as np

from kvscope.export.perfetto.packets import Packets
from kvscope.export.perfetto.places import LOAD, Places
from kvscope.export.perfetto.tracks import Tracks
from kvscope.model.graph import NODE
from kvscope.model.splits import Splits
from kvscope.probe.vocabulary import UNKNOWN, VALUES

LOAD_IS: dict[str, tuple[str, str]] = {
    "waiting": ("requests", "Requests waiting for a place in the batch."),
    "running": ("requests", "Requests in the batch."),
    "held": ("requests", "Requests held for remote KV: their blocks are reserved, the bytes are not there yet."),
    "free_blocks": ("blocks", "KV blocks free."),
}
"""Counter -> its unit, and what it counts."""
HANDOFF = "in hand-off"
HANDOFF_IS = (
    "Requests whose prompt is computed and whose decode engine's scheduler has not been told yet that the KV blocks are"
    " there: from `computed` to `ready`."
)


class Load:
    """Draws what engines tell of their load."""

    def __init__(self, packets: Packets, tracks: Tracks, places: Places) -> None:
        self._packets, self._tracks, self._places = packets, tracks, places
        self._first: dict[int, int] = {}

    def draw(self, rows: np.ndarray) -> None:
        """Rows of `load` (dtype EVENT)."""
        rows = rows[np.argsort(rows["t"], kind="stable")]
        for process in np.unique(rows["process"]).tolist():
            mine = rows[rows["process"] == process]
            t = self._places.times(mine)
            for column, name in enumerate(VALUES["load"]):
                values = mine["values"][:, column]
                told = values != UNKNOWN
                track = np.full(int(told.sum()), self._counter(process, column, name))
                self._packets.counters(track, t[told], values[told])

    def _counter(self, process: int, rank: int, name: str) -> int:
        """Those of a further core of the same engine have its pid in their names."""
        root = self._places.engine_of(process)
        group = self._tracks.track(("load", root), "load", root, LOAD)
        first = self._first.setdefault(group, process)
        more = "" if first == process else f", {self._places.process_name(process)}"
        unit, meaning = LOAD_IS[name]
        key = ("counter", process, name)
        return self._tracks.counter(key, f"{name}{more}", group, rank + 10 * (first != process), meaning, unit)


class Handoffs:
    """Counts requests in hand-off. What changes when is known for good only at the end: 32 bytes are kept for each."""

    def __init__(self, packets: Packets, tracks: Tracks, parent: int) -> None:
        self._packets, self._tracks, self._parent = packets, tracks, parent
        self._edges: list[np.ndarray] = []

    def add(self, splits: Splits, shift: np.ndarray) -> None:
        """Requests that are over. shift: (n,) ns to the axis of the trace."""
        computed, ready = (splits.time[:, NODE[name]] for name in ("P.computed", "ready"))
        handed = (computed != UNKNOWN) & (ready != UNKNOWN) & (ready > computed) & ~splits.marked("unaligned")
        edges = np.stack((computed + shift, ready + shift), axis=1)[handed]
        self._edges.append(edges)

    def draw(self) -> None:
        """All changes."""
        edges = np.concatenate((np.empty((0, 2), np.int64), *self._edges))
        if not len(edges):
            return
        t, at = np.unique(edges, return_inverse=True)
        begun, ended = at.reshape(edges.shape).T
        change = np.bincount(begun, minlength=len(t)) - np.bincount(ended, minlength=len(t))
        track = self._tracks.counter(("handoff",), HANDOFF, self._parent, 1, HANDOFF_IS, "requests")
        self._packets.counters(np.full(len(t), track), t, np.cumsum(change))

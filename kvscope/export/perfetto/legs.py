"""The two legs of each request below their engines: from the first moment of a leg to the last, phase by phase."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvscope.export.perfetto import colours, fields
from kvscope.export.perfetto.lanes import Lanes
from kvscope.export.perfetto.names import TEXTS
from kvscope.export.perfetto.packets import Arg, Look, Packets, spelled
from kvscope.export.perfetto.places import LEGS, Places
from kvscope.export.perfetto.requests import handle
from kvscope.export.perfetto.tracks import Tracks
from kvscope.model.graph import ALL_NODES, NODE, NODES, STAGE_OF
from kvscope.model.splits import Splits
from kvscope.model.stages import STAGES
from kvscope.probe.vocabulary import UNKNOWN

HELD: dict[str, tuple[str, str]] = {
    "P.computed": ("pinned", colours.HELD),
    "D.reserved": ("reserved_idle", colours.HELD),
    "first_token": ("answer", colours.ANSWER),
    "D.finished": ("release", colours.ANSWER),
}
"""Moment -> what a leg is in from then on, where that is no stage of the path, and its colour."""
PHASES = tuple(stage.name for stage in STAGES) + tuple(name for name, _ in HELD.values())
COLOURS = colours.OF_STAGE + tuple(colour for _, colour in HELD.values())


@dataclass(frozen=True)
class Side:
    """One leg of a request."""

    name: str
    nodes: tuple[int, ...]
    """The moments that part its phases, in order."""
    description: str


_ARRIVAL = ("arrived", "taken", "queued")
_READ = ("reserved", "post_begun", "prepared", "posted", "pending_seen", "transferred", "noticed", "ready")
_READS = tuple(NODE[f"P.{name}"] for name in _READ)
_PREFILL = tuple(NODE[f"P.{name}"] for name in (*_ARRIVAL, *_READ, "scheduled", "computed", "released"))
_DECODE = tuple(
    NODE[name]
    for name in (
        *(f"D.{name}" for name in (*_ARRIVAL, "reserved")),
        *("transferred", "notified", "noticed", "failed", "ready", "D.scheduled", "first_token"),
        *("D.finished", "D.released"),
    )
)
SIDES: dict[str, Side] = {
    "prefill": Side("prefill", _PREFILL, "Prefill legs. `pinned`: the KV blocks are final and not freed yet."),
    "decode": Side(
        "decode",
        _DECODE,
        "Decode legs. `reserved_idle`: KV blocks are reserved and empty, the price of an early registration; `answer`:"
        " tokens after the first.",
    ),
}
PHASE = np.dtype([("row", "i8"), ("phase", "u1"), ("begin", "i8"), ("end", "i8")])


class RequestLegs:
    """Draws legs of requests that are over."""

    def __init__(self, packets: Packets, tracks: Tracks, places: Places) -> None:
        self._packets, self._tracks, self._places = packets, tracks, places
        self._lanes: dict[tuple[str, int], Lanes] = {}

    def draw(self, splits: Splits, side: Side, engine: np.ndarray, reach: np.ndarray) -> None:
        """One leg of each request. engine: (n,) number, below 0: none; reach: (n, 2) i8 first and last moment."""
        rows = np.flatnonzero((engine >= 0) & (reach[:, 0] != UNKNOWN))
        splits, engine, reach = splits.select(rows), engine[rows], reach[rows]
        shift = self._places.engine_shifts()[engine]
        begin, end = reach[:, 0] + shift, reach[:, 1] + shift
        tracks = self._placed(side, engine, begin, end)
        ids = [splits.text(row) for row in range(len(splits))]
        request = self._packets.names.numbers(TEXTS, ids)
        args = [Arg("request", request, kind=fields.ARG_TEXT_IID)]
        self._packets.slices(tracks, begin, end, Look("leg", spelled([handle(text) for text in ids]), args))
        found = phases(splits, side, reach)
        row, label = found["row"], self._packets.named(PHASES, found["phase"])
        look = Look("phase", label, [arg.of(row) for arg in args], self._packets.colours(COLOURS)[found["phase"]])
        self._packets.slices(tracks[row], found["begin"] + shift[row], found["end"] + shift[row], look)

    def _placed(self, side: Side, engine: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        tracks = np.zeros(len(engine), np.uint64)
        for number in np.unique(engine).tolist():
            mine, root = np.flatnonzero(engine == number), self._places.engine(number)
            lanes = self._lanes.setdefault((side.name, root), Lanes()).place(begin[mine], end[mine])
            made = [self._track(side, root, lane) for lane in range(int(lanes.max()) + 1)]
            tracks[mine] = np.array(made, np.uint64)[lanes]
        return tracks

    def _track(self, side: Side, root: int, lane: int) -> int:
        key = ("leg", side.name, root, lane)
        return self._tracks.track(key, f"{side.name} legs", root, LEGS, side.description)


def phases(splits: Splits, side: Side, reach: np.ndarray) -> np.ndarray:
    """(k,) PHASE of each request's leg, in order and gapless, from the first of the moments that part phases on."""
    times = splits.time[:, side.nodes].copy()
    computed = np.array([not ALL_NODES[node].moment for node in side.nodes])
    # What prefill stamps of a write bears the names of what it stamps of a read.
    read = np.isin(side.nodes, _READS)
    times[~splits.shaped("return_read")[:, None] & read] = UNKNOWN
    # When the bytes had landed is known from the other leg, too: not where its clock does not compare.
    times[splits.marked("unaligned")[:, None] & computed] = UNKNOWN
    known = times != UNKNOWN
    times = np.maximum.accumulate(np.where(known, np.clip(times, reach[:, :1], reach[:, 1:]), UNKNOWN), axis=1)
    row, at = np.nonzero(known)
    same = np.flatnonzero(row[1:] == row[:-1])
    frm, to = at[same], at[same + 1]
    found = np.empty(len(same), PHASE)
    found["row"], found["phase"] = row[same], _phase_table(side)[frm, to]
    found["begin"], found["end"] = times[row[same], frm], times[row[same], to]
    return found[found["end"] > found["begin"]]


def _phase_table(side: Side) -> np.ndarray:
    """(nodes, nodes) index into PHASES, by which moment begins it and which ends it."""
    table = np.zeros((len(side.nodes), len(side.nodes)), np.uint8)
    for frm, begins in enumerate(side.nodes):
        for to, ends in enumerate(side.nodes):
            held, _ = HELD.get(ALL_NODES[begins].name, ("", ""))
            within = begins < len(NODES) and ends < len(NODES)
            stage = STAGES[STAGE_OF[ends, begins]].name if within else "unattributed"
            table[frm, to] = PHASES.index(held if held and stage != "failed_attempt" else stage)
    return table

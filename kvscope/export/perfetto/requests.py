"""Requests: on lanes, each as one slice until its first token, its critical path below it, and what hid behind that."""

from __future__ import annotations

import numpy as np

from kvscope.core.join import router_id
from kvscope.export.perfetto import colours, fields
from kvscope.export.perfetto.lanes import Lanes
from kvscope.export.perfetto.names import TEXTS
from kvscope.export.perfetto.packets import Arg, Look, Packets, spelled
from kvscope.export.perfetto.splitargs import SplitArgs
from kvscope.export.perfetto.tracks import Tracks
from kvscope.model.graph import ALL_NODES, BRANCHES
from kvscope.model.requests import STATES, State
from kvscope.model.splits import Splits
from kvscope.model.stages import STAGES, Class
from kvscope.probe.vocabulary import LEGS, UNKNOWN

LANE_IS = "Requests that do not overlap, one after the other. Unfold for their critical paths."
PATH_IS = "What the first token waited for, stage by stage: the slices add up to the time to first token, to the ns."
HIDDEN_IS = "The branch that was over in time: what it took did not delay the first token. Its slack is told with it."
SHORT = 8
"""Characters of a request id in the name of its slice."""
CLASSES = tuple(Class)


class Requests:
    """Draws requests that are over."""

    def __init__(self, packets: Packets, tracks: Tracks, root: int) -> None:
        self._packets, self._tracks, self._root = packets, tracks, root
        self._lanes, self._args = Lanes(), SplitArgs(packets.names)

    def draw(self, splits: Splits, pieces: np.ndarray, begin: np.ndarray, end: np.ndarray) -> None:
        """n requests; pieces: dtype PIECE, on the axis of the trace; begin, end: (n,) i8 of each, likewise."""
        lane = self._lanes.place(begin, end)
        tracks = np.array([self._lane(number) for number in range(int(lane.max(initial=-1)) + 1)], np.uint64)
        label = spelled([_name(splits, row) for row in range(len(splits))])
        look = Look("request", label, self._args.of(splits), self._leading(splits))
        self._packets.slices(tracks[lane], begin, end, look)
        request = self._packets.names.numbers(TEXTS, [splits.text(row) for row in range(len(splits))])
        for walk, name, category in _WALKS:
            mine = pieces[pieces["walk"] == walk]
            if len(mine):
                self._draw_walk(mine, lane[mine["row"]], name, category, request[mine["row"]])

    def _draw_walk(self, pieces: np.ndarray, lane: np.ndarray, name: str, category: str, request: np.ndarray) -> None:
        rank = 1 + [walk[1] for walk in _WALKS].index(name)
        description = PATH_IS if category == "path" else HIDDEN_IS
        seen, where = np.unique(lane, return_inverse=True)
        made = [self._tracks.track((name, one), name, self._lane(one), rank, description) for one in seen.tolist()]
        names = self._packets.names
        args = [
            Arg("request", request, kind=fields.ARG_TEXT_IID),
            Arg("class", names.numbers(TEXTS, _CLASS_NAMES)[pieces["stage"]], kind=fields.ARG_TEXT_IID),
            Arg("ended_by", names.numbers(TEXTS, _NODE_NAMES)[pieces["node"]], kind=fields.ARG_TEXT_IID),
            Arg("leg", names.numbers(TEXTS, LEGS)[pieces["leg"]], kind=fields.ARG_TEXT_IID),
            Arg("step", pieces["step"], pieces["step"] != 0),
        ]
        label = self._packets.named([stage.name for stage in STAGES], pieces["stage"])
        look = Look(category, label, args, self._packets.colours(colours.OF_STAGE)[pieces["stage"]])
        self._packets.slices(np.array(made, np.uint64)[where], pieces["begin"], pieces["end"], look)

    def _lane(self, number: int) -> int:
        return self._tracks.track(("lane", number), f"lane {number + 1}", self._root, number + 10, LANE_IS)

    def _leading(self, splits: Splits) -> np.ndarray:
        """(n,) the colour of the class that each request spent most on; of failures that of failures."""
        spent = np.stack([splits.class_bounds(cls)[0] for cls in CLASSES], axis=1)
        key = self._packets.colours([*(colours.OF_CLASS[cls] for cls in CLASSES), colours.FAILURE])
        failed = splits.failure[:, 0] != 0
        return np.where(failed, key[-1], np.where(splits.timed, key[spent.argmax(axis=1)], 0))


_WALKS: tuple[tuple[int, str, str], ...] = (
    (0, "critical path", "path"),
    *((index + 1, f"hidden: {branch}", "hidden") for index, branch in enumerate(BRANCHES)),
)
_CLASS_NAMES = tuple(str(stage.cls) for stage in STAGES)
_NODE_NAMES = tuple(node.name for node in ALL_NODES)


def handle(request: str) -> str:
    """The beginning of the id that its client or router gave a request."""
    return router_id(request)[:SHORT]


def _name(splits: Splits, row: int) -> str:
    """Its handle and its time to first token, or what became of it."""
    ttft, state = int(splits.ttft[row]), STATES[splits.state[row]]
    if splits.failure[row, 0]:
        ending = "failed"
    elif ttft != UNKNOWN:
        ending = f"{ttft / 1e6:.1f} ms"
    else:
        ending = "no first token" if state is State.COMPLETE else state.replace("_", "-")
    return f"{handle(splits.text(row))} {ending}"

"""Engine steps as slices on the threads that ran them."""

from __future__ import annotations

import numpy as np

from kvscope.export.perfetto import colours, fields
from kvscope.export.perfetto.arguments import Arguments
from kvscope.export.perfetto.lanes import Sequence
from kvscope.export.perfetto.packets import Look, Packets
from kvscope.export.perfetto.places import Places
from kvscope.export.perfetto.wire import Cells, bytes_field, constant, decimal
from kvscope.probe.vocabulary import MOMENT_CODE, UNKNOWN, VALUES

STEP = MOMENT_CODE["step"]
CATEGORIES = ("step", "idle")
"""Of steps that ran a forward, and of those that ran none: many of these are one slice."""
_BEGIN, _REQUESTS, _TOKENS, _FOLDED = (VALUES["step"].index(name) for name in ("begin", "requests", "tokens", "folded"))


class Steps:
    """Draws steps, in the order of their ends."""

    def __init__(self, packets: Packets, places: Places, arguments: Arguments) -> None:
        self._packets, self._places, self._arguments = packets, places, arguments
        self._lanes: dict[int, Sequence] = {}

    def draw(self, rows: np.ndarray) -> None:
        """Steps (dtype EVENT) later than those before."""
        rows = rows[np.argsort(rows["t"], kind="stable")]
        begin = rows["values"][:, _BEGIN]
        begin = np.where(begin == UNKNOWN, rows["t"], np.minimum(begin, rows["t"]))
        begin, end = self._places.moved(rows["process"], begin), self._places.times(rows)
        args = [arg for arg in self._arguments.of(rows, STEP) if arg.name not in ("begin", "step")]
        kind = (rows["values"][:, _FOLDED] > 0).astype(int)
        category = self._packets.categories(CATEGORIES)[kind]
        colour = self._packets.colours((colours.STEP, colours.IDLE))[kind]
        look = Look(category, lambda at: bytes_field(fields.NAME, _names(rows[at])), args, colour)
        self._packets.slices(self._placed(rows, begin, end), begin, end, look)

    def _placed(self, rows: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        tracks = np.zeros(len(rows), np.uint64)
        keys = rows["process"].astype(np.int64) << 8 | rows["thread"]
        for key in np.unique(keys).tolist():
            mine = np.flatnonzero(keys == key)
            lanes = self._lanes.setdefault(key, Sequence()).place(begin[mine], end[mine])
            made = [self._places.thread(key >> 8, key & 0xFF, lane) for lane in range(int(lanes.max()) + 1)]
            tracks[mine] = np.array(made, np.uint64)[lanes]
        return tracks


def _names(rows: np.ndarray) -> Cells:
    """`step 169: 2 req, 1002 tok`; of steps without a forward `idle, 12 steps`."""
    count, values = len(rows), rows["values"]
    requests, tokens, folded = (np.maximum(values[:, column], 0) for column in (_REQUESTS, _TOKENS, _FOLDED))
    told = (folded == 0) & (values[:, _REQUESTS] != UNKNOWN) & (values[:, _TOKENS] != UNKNOWN)
    step = constant(b"step ", count) + decimal(rows["step"])
    batch = constant(b": ", count) + decimal(requests) + constant(b" req, ", count) + decimal(tokens)
    idle = constant(b"idle, ", count) + decimal(folded) + constant(b" steps", count)
    return step.where(folded == 0) + (batch + constant(b" tok", count)).where(told) + idle.where(folded > 0)

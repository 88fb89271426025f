"""When the push connector's writer did not look for registrations: what came in such a stretch waited for its end."""

from __future__ import annotations

import numpy as np

from kvscope.export.perfetto.lanes import Sequence
from kvscope.export.perfetto.packets import Look, Packets
from kvscope.export.perfetto.places import DRAINS, Places
from kvscope.probe.vocabulary import MOMENT_CODE, UNKNOWN, VALUES

_RECEIVED = MOMENT_CODE["registration_received"]
_LOOKED = VALUES["registration_received"].index("looked")
_STRETCH = np.dtype([("key", "i8"), ("begin", "i8"), ("end", "i8")])


class Drains:
    """Draws each stretch once, until its drain's first registration: one drain may bring those of many requests."""

    def __init__(self, packets: Packets, places: Places) -> None:
        self._packets, self._places = packets, places
        self._lanes: dict[int, Sequence] = {}
        self._last: dict[int, int] = {}

    def draw(self, rows: np.ndarray) -> None:
        """Those that registrations among rows (dtype EVENT) tell of."""
        looked = rows["values"][:, _LOOKED]
        rows = rows[(rows["moment"] == _RECEIVED) & (looked != UNKNOWN) & (looked < rows["t"])]
        found = np.empty(len(rows), _STRETCH)
        found["key"] = rows["process"].astype(np.int64) << 8 | rows["thread"]
        found["begin"], found["end"] = rows["values"][:, _LOOKED], rows["t"]
        found.sort()
        found = found[np.append(True, found[1:][["key", "begin"]] != found[:-1][["key", "begin"]])[: len(found)]]
        for key in np.unique(found["key"]).tolist():
            self._draw(key, found[(found["key"] == key) & (found["begin"] > self._last.get(key, UNKNOWN))])

    def _draw(self, key: int, stretches: np.ndarray) -> None:
        if not len(stretches):
            return
        self._last[key] = int(stretches["begin"][-1])
        process, thread = key >> 8, key & 0xFF
        begin, end = (self._places.moved(np.array([process]), stretches[edge]) for edge in ("begin", "end"))
        lanes = self._lanes.setdefault(key, Sequence()).place(begin, end)
        made = [self._places.below(process, thread, DRAINS, lane) for lane in range(int(lanes.max()) + 1)]
        self._packets.slices(
            np.array(made, np.uint64)[lanes], begin, end, Look("drain", self._packets.called("no drain"))
        )

"""When an engine stepped: much of a hand-off is waiting for a step to end or to begin."""

from __future__ import annotations

import numpy as np

from kvscope.model.events import Events
from kvscope.model.requests import RequestSplit
from kvscope.probe.vocabulary import MOMENT_CODE, UNKNOWN, VALUES

_BEGIN, _FOLDED = VALUES["step"].index("begin"), VALUES["step"].index("folded")


def step_begins(events: Events, engine: str, begin: int, end: int) -> list[int]:
    """Instants (ns) within [begin, end] at which steps with work began on the engine, in order."""
    members = [index for index, process in enumerate(events.processes) if process.engine == engine]
    rows = events.rows[(events.rows["moment"] == MOMENT_CODE["step"]) & np.isin(events.rows["process"], members)]
    began, folded = rows["values"][:, _BEGIN], rows["values"][:, _FOLDED]
    worked = (began != UNKNOWN) & ((folded == UNKNOWN) | (folded == 0))
    inside = np.unique(began[worked & (began >= begin) & (began <= end)])
    return [int(t) for t in inside]


def steps_beside(events: Events, split: RequestSplit) -> dict[str, list[int]]:
    """leg -> steps of its engine in the time of the request."""
    times = [stamp.t for stamp in split.stamps]
    if not times:
        return {}
    engines = {"prefill": split.prefill_engine, "decode": split.decode_engine}
    return {leg: step_begins(events, engine, min(times), max(times)) for leg, engine in engines.items() if engine}

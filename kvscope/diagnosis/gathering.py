"""The evidence of a recording that is gone through once, in pieces: memory is of its requests, not of its events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kvscope.core.critical_path import split
from kvscope.core.unhurried import Unhurried
from kvscope.diagnosis.evidence import Evidence, evidence_of
from kvscope.diagnosis.kept import Kept, slim
from kvscope.export.passage import passage
from kvscope.model.events import EVENT, Events, Process
from kvscope.model.requests import Tally
from kvscope.model.splits import CARVE, COLUMNS, Splits
from kvscope.sources.past import Past

_ORDER = ("peer_request", "request", "last_moment", "origin")


def gather(past: Past, told: Callable[[float], None] = lambda share: None, stream: Unhurried | None = None) -> Evidence:
    """Of all of it; `told` hears how far that is, 0 to 1."""
    stream, kept, over = stream or Unhurried(), Kept(), list[Splits]()
    for part in passage(past, told=told, stream=stream):
        kept.take(part.events)
        over += [slim(splits) for splits in part.over if len(splits)]
    lost = sum(process.lost for process in kept.processes)
    tally = replace(stream.tally, lost=lost)
    return evidence_of(kept, laid(over, tally) if over else _nothing(kept.processes, tally))


def laid(parts: list[Splits], tally: Tally) -> Splits:
    """Parts of one recording as one, in the order of `split`. The parts are used up: column by column, so that no more
    than one is there twice."""
    order = np.lexsort([_key(np.concatenate([getattr(part, name) for part in parts])) for name in _ORDER])
    texts = {key: text for part in parts for key, text in part.texts.items()}
    now, last = max(part.now for part in parts), parts[-1]
    columns = [{name: getattr(part, name) for name in COLUMNS} for part in parts]
    parts.clear()
    laid: dict[str, Any] = {name: np.concatenate([each.pop(name) for each in columns])[order] for name in COLUMNS}
    return replace(last, carves=np.empty(0, CARVE), texts=texts, now=now, tally=tally, **laid)


def _key(column: np.ndarray) -> np.ndarray:
    return column[:, 2] if column.ndim > 1 else column


def _nothing(processes: Sequence[Process], tally: Tally) -> Splits:
    return replace(slim(split(Events(np.empty(0, EVENT), tuple(processes), {}))), tally=tally)

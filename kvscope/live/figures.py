"""What requests can be sorted and filtered by: one table of names, each with how it is had from the columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kvscope.analysis.bands import CLASS_OF_STAGE, CLASSES, class_ns
from kvscope.model.graph import STAGE_INDEX
from kvscope.model.requests import STATES, State
from kvscope.model.shapes import SHAPES
from kvscope.model.splits import Splits
from kvscope.model.stages import STAGES
from kvscope.probe.vocabulary import LEGS, MOMENTS, UNKNOWN

TIME, COUNT = "time", "count"


@dataclass(frozen=True)
class Figure:
    """A number of each request."""

    name: str
    unit: str
    """TIME (ns) or COUNT"""
    meaning: str
    of: Callable[[Splits], np.ndarray]
    """(n,) f8, NaN where not known"""


Coded = tuple[tuple[np.ndarray, ...], Sequence[int], Sequence[str]]
"""Columns (n,) of codes, each of which may match; codes and beside them their words, a code once for each word."""


@dataclass(frozen=True)
class Label:
    """Words of each request."""

    name: str
    meaning: str
    of: Callable[[Splits], Coded]


def _known(values: np.ndarray) -> np.ndarray:
    return np.where(values == UNKNOWN, np.nan, values.astype(float))


def _stage(name: str) -> Callable[[Splits], np.ndarray]:
    return lambda splits: _where_pathed(splits, splits.exposed[:, STAGE_INDEX[name]])


def _hidden(name: str) -> Callable[[Splits], np.ndarray]:
    return lambda splits: _where_pathed(splits, splits.hidden[:, STAGE_INDEX[name]])


def _class(index: int) -> Callable[[Splits], np.ndarray]:
    return lambda splits: _where_pathed(splits, splits.exposed[:, CLASS_OF_STAGE == index].sum(axis=1))


def _where_pathed(splits: Splits, ns: np.ndarray) -> np.ndarray:
    """Of one that never had a first token, no stage is known to be on the path."""
    return np.where(splits.first_token == UNKNOWN, np.nan, ns.astype(float))


def _age(splits: Splits) -> np.ndarray:
    return np.where(splits.in_state(State.UNFINISHED), splits.age.astype(float), np.nan)


FIGURES: tuple[Figure, ...] = (
    Figure("ttft", TIME, "time to first token, of complete requests", lambda splits: _known(splits.ttft)),
    Figure("age", TIME, "how long an unfinished request has been here", _age),
    Figure("tpot", TIME, "per token after the first", lambda splits: splits.tpot),
    Figure("gap", TIME, "largest gap between two tokens", lambda splits: _known(splits.largest_gap)),
    Figure("reserved", TIME, "decode's blocks reserved and empty", lambda splits: _known(splits.reserved_idle)),
    Figure("pinned", TIME, "prefill's blocks held after it was done", lambda splits: _known(splits.pinned)),
    Figure("prompt", COUNT, "prompt tokens", lambda splits: _known(splits.prompt_tokens)),
    Figure("cached", COUNT, "of these, cached", lambda splits: _known(splits.cached_tokens)),
    Figure("output", COUNT, "output tokens", lambda splits: _known(splits.output_tokens)),
    Figure("bytes", COUNT, "bytes transferred", lambda splits: _known(splits.transfer_bytes)),
    *(Figure(f"class.{cls.short}", TIME, f"exposed {cls}", _class(index)) for index, cls in enumerate(CLASSES)),
    *(Figure(f"stage.{stage.name}", TIME, f"exposed: {stage.meaning}", _stage(stage.name)) for stage in STAGES),
    *(Figure(f"hidden.{stage.name}", TIME, f"hidden: {stage.meaning}", _hidden(stage.name)) for stage in STAGES),
)
FIGURE = {figure.name: figure for figure in FIGURES}


def _engines(splits: Splits, *columns: np.ndarray) -> Coded:
    return columns, range(len(splits.engines)), [engine.engine for engine in splits.engines]


def _leading(splits: Splits) -> Coded:
    """The class that a request spent most on; none without a first token."""
    leading = np.where(splits.first_token == UNKNOWN, -1, class_ns(splits.exposed).argmax(axis=1))
    return (
        (leading,),
        2 * [*range(len(CLASSES))],
        [cls.replace(" ", "_") for cls in CLASSES] + [cls.short for cls in CLASSES],
    )


def _ids(splits: Splits) -> Coded:
    return (splits.request, splits.peer_request), list(splits.texts), list(splits.texts.values())


def _last(splits: Splits) -> Coded:
    codes = splits.last_moment[:, 0] * len(MOMENTS) + splits.last_moment[:, 1]
    told: list[int] = np.unique(codes).tolist()
    return (codes,), told + told, [MOMENTS[code % len(MOMENTS)] for code in told] + [_of_leg(code) for code in told]


def _of_leg(code: int) -> str:
    return f"{LEGS[code // len(MOMENTS)]}.{MOMENTS[code % len(MOMENTS)]}"


LABELS: tuple[Label, ...] = (
    Label("id", "request id of either leg", _ids),
    Label("engine", "prefill or decode engine", lambda s: _engines(s, s.prefill_engine, s.decode_engine)),
    Label("prefill", "prefill engine", lambda s: _engines(s, s.prefill_engine)),
    Label("decode", "decode engine", lambda s: _engines(s, s.decode_engine)),
    Label("class", "class with the largest part of its time", _leading),
    Label("state", "complete, one_legged, ..", lambda s: ((s.state,), range(len(STATES)), [*map(str, STATES)])),
    Label("shape", "push, pull, ..", lambda s: ((s.shape,), range(len(SHAPES)), [each.name for each in SHAPES])),
    Label("last", "its last moment: posted, decode.ready, ..", _last),
)
LABEL = {label.name: label for label in LABELS}

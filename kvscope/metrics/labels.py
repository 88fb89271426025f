"""Whose a series is, and every value that a label may have. A request id is none of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from kvscope.model.controls import UNSEEN
from kvscope.model.graph import (
    DECODE_FRONT,
    EDGES,
    NODE,
    PREFILL,
    REGISTRATION,
    RETURN_READ,
    STAGE_INDEX,
    STAGING,
    UNATTRIBUTED,
)
from kvscope.model.moments import MOMENT
from kvscope.model.requests import STATES
from kvscope.model.shapes import SHAPES, missing_name
from kvscope.model.stages import STAGES, Class, Stage
from kvscope.probe.vocabulary import REASON_CODE, REASONS, THREADS, UNKNOWN

OTHER, UNTOLD = "other", "unknown"
"""What was too many to be named; what nobody told."""
Columns = tuple[tuple[str, ...], ...]
"""Label sets, each with a value for each name."""


@dataclass(frozen=True)
class Scope:
    """Labels whose values are told at run time. There are `most` sets of them, and one more for what is beyond."""

    labels: tuple[str, ...]
    most: int

    @property
    def rest(self) -> tuple[str, ...]:
        """The set of what is beyond."""
        return (OTHER,) * len(self.labels)


LONGEST = 160
"""Characters of a label's value."""
_HASH_BYTES = 4
_MARKED = re.compile(f"…[0-9a-f]{{{2 * _HASH_BYTES}}}$")


@lru_cache(maxsize=4096)
def label_value(told: str) -> str:
    """What an engine calls itself or anything else, as a label's value. Two that differ never become one.

    Control characters become `?`. What that changes, and what is too long, ends in … and a hash of the whole.
    """
    plain = told.translate(UNSEEN)
    if plain == told and len(told) <= LONGEST and not _MARKED.search(told):
        return told
    mark = f"…{blake2b(told.encode('utf-8', 'surrogatepass'), digest_size=_HASH_BYTES).hexdigest()}"
    return plain[: LONGEST - len(mark)] + mark


ENGINE = Scope(("model_name", "engine", "engine_name"), 200)
GROUP = Scope(("model_name", "connector"), 5)
PAIR = Scope(("engine_name", "peer"), 50)
ALONE = Scope((), 0)

LABEL_MEANING: dict[str, str] = {
    "model_name": "the model as it is served; as in vLLM's metrics",
    "engine": "vLLM's engine index, the data-parallel rank; as in vLLM's metrics",
    "engine_name": "stable name (`KVSCOPE_ENGINE`, else host:port of its side channel); of a pair, prefill's",
    "peer": "stable name of the decode engine of a pair",
    "connector": "vLLM's name of the KV connector",
    "shape": "shape of the request",
    "state": "of requests: state of its account; of engines and their requests: as the metric says",
    "moment": "a moment; with `P.` or `D.` where a shape has it on both legs",
    "leg": "prefill or decode",
    "reason": "reason of the vocabulary; an engine's own words, and what is not told apart, are `other`",
    "kind": "as the metric says",
    "mark": "what is remarkable about a request",
    "prompt_tokens": "range of the prompt's length",
    "stage": "stage between two moments",
    "class": "class of the stage",
    "exposure": "on the path to the first token (`exposed`) or behind it (`hidden`)",
    "branch": "what was hidden: the registration, or the staging of finished blocks",
    "bound": "of what is known between bounds: the low or the high one",
    "placement": "where a transfer is posted: `forward` (the forward thread), `writer`, or `other`",
    "thread": "role of the thread that posts",
    "objective": "what was asked for with `--slo`",
    "outcome": "whether it was met",
    "dispatch": "when the router sent the decode leg: before prefill was done, or with its outcome",
    "part": "of kvscope's own work",
}

PROMPT_FROM = np.array([0, 512, 2048, 8192])
"""Tokens that each range of prompts begins with. A factor of four: within it, prefill and bytes are much alike."""
_ENDS = [f"-{end - 1}" for end in PROMPT_FROM[1:].tolist()] + ["-"]
PROMPTS = (*(f"{begin}{end}" for begin, end in zip(PROMPT_FROM.tolist(), _ENDS, strict=True)), UNTOLD)


def prompt_ranges(tokens: np.ndarray) -> np.ndarray:
    """(n,) index into PROMPTS of each number of tokens."""
    return np.where(tokens == UNKNOWN, len(PROMPTS) - 1, np.searchsorted(PROMPT_FROM, tokens, "right") - 1)


def class_label(cls: Class) -> str:
    """As it is typed: without a space."""
    return cls.replace(" ", "_")


SIDES = ("prefill", "decode")
EXPOSURES = ("exposed", "hidden")
BOUNDS = ("low", "high")
OBJECTIVES, OUTCOMES = ("ttft", "tpot"), ("met", "missed")
DISPATCHES = ("early", "sequential")
"""By `Splits.knew`: whether the decode leg was sent before prefill's outcome was known, or with it."""
CLASSES = tuple(map(class_label, Class))
TROUBLES = ("handshake", "expired", "other")
STATE_NAMES = tuple(map(str, STATES))
SHAPE_NAMES = tuple(shape.name for shape in SHAPES)


def _staged(stage: Stage) -> tuple[str, str]:
    return stage.name, class_label(stage.cls)


STAGE_CLASSES: Columns = tuple(map(_staged, STAGES))
"""Stage and class, in the table's order."""
_BRANCHES = {*PREFILL, *STAGING, *DECODE_FRONT, *REGISTRATION} - {*RETURN_READ}
HIDEABLE: tuple[int, ...] = tuple(
    sorted({STAGE_INDEX[name] for edge in EDGES if NODE[edge.to] in _BRANCHES for name in (edge.stage, *edge.less)}
           | {UNATTRIBUTED})
)  # fmt: skip
"""Indices of stages that can be hidden: those that lead to where registration and finished blocks meet."""

MISSABLE: tuple[str, ...] = tuple(
    dict.fromkeys(missing_name(shape, node) for shape in SHAPES for node in sorted(shape.nodes))
)
"""Names of moments that a request can lack."""

FAILURES: tuple[str, ...] = (*REASONS[REASON_CODE["handshake_setup_failed"] :], OTHER)
FAILURE_OF_REASON = np.array(
    [FAILURES.index(reason) if reason in FAILURES else len(FAILURES) - 1 for reason in REASONS]
)
"""Code of a reason -> index into FAILURES."""
TROUBLE_OF_REASON = np.array(
    [TROUBLES.index("handshake" if "handshake" in reason else "expired" if reason.endswith("expired") else "other")
     for reason in REASONS]
)  # fmt: skip
"""Code of a reason -> index into TROUBLES."""
HOLDS = ("blocks", "slot", OTHER)
HOLD_OF_REASON = np.array([HOLDS.index(reason) if reason in HOLDS else len(HOLDS) - 1 for reason in REASONS])
"""Code of a reason -> index into HOLDS."""
LAST_MOMENTS: Columns = tuple((leg, name) for name, moment in MOMENT.items() for leg in moment.legs if leg != "engine")
"""Leg and moment that a request in flight can have come to."""

_PLACEMENT = {"worker": "forward", "writer": "writer"}
POSTERS: Columns = tuple((_PLACEMENT.get(thread, OTHER), thread) for thread in THREADS)
"""Placement and thread role, by the thread's code."""

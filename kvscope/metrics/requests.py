"""What requests that are over add to the tables: each of them once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kvscope.analysis.objectives import Objectives
from kvscope.analysis.transfers import TRANSFERRING
from kvscope.metrics import labels
from kvscope.metrics.labels import prompt_ranges
from kvscope.metrics.sides import lengths_at
from kvscope.metrics.tables import Store
from kvscope.model.graph import BRANCHES, UNATTRIBUTED
from kvscope.model.requests import STATES, State
from kvscope.model.shapes import SHAPES, missing_name
from kvscope.model.splits import MARKS, Splits
from kvscope.model.stages import STAGES, Class
from kvscope.probe.vocabulary import LEG_CODE, REASONS, UNKNOWN

_CLASSES, _STAGES = len(labels.CLASSES), len(STAGES)
_HIDDEN = np.full(_STAGES, _STAGES + labels.HIDEABLE.index(UNATTRIBUTED))
_HIDDEN[list(labels.HIDEABLE)] = _STAGES + np.arange(len(labels.HIDEABLE))
_COLUMNS = (np.arange(_STAGES), _HIDDEN)
"""Of a range of prompts, the column of each stage: exposed, hidden."""
_WIDTH = _STAGES + len(labels.HIDEABLE)
_CLASS_OF_STAGE = np.array([list(Class).index(stage.cls) for stage in STAGES])
_PREFILL, _DECODE = (LEG_CODE[leg] for leg in labels.SIDES)


@dataclass(frozen=True)
class Over:
    """n requests that are over, and where each belongs."""

    splits: Splits
    ids: np.ndarray
    """(n,) texts of requests"""
    at: float
    """time of day, s, at which they are counted"""
    prefill: np.ndarray
    """(n,) row of the engine of each leg; -1: it is not told of"""
    decode: np.ndarray
    group: np.ndarray
    """(n,)"""
    prompt: np.ndarray
    """(n,) index into PROMPTS"""

    def of(self, rows: np.ndarray) -> Over:
        """Some of them, (n,) bool."""
        columns = {name: getattr(self, name)[rows] for name in ("ids", "prefill", "decode", "group", "prompt")}
        return replace(self, splits=self.splits.select(rows), **columns)

    def side(self, leg: int) -> np.ndarray:
        """(n,) row of the engine of a leg: 0 prefill's, 1 decode's."""
        return self.decode if leg else self.prefill


def over_of(splits: Splits, seats: np.ndarray, nobody: int, at: float) -> Over:
    """Requests laid out by engine and group. seats: (engines + 1, 2) as `Roll.seats` has them; nobody: the group of
    those whose engines are not told of"""
    prefill, decode = seats[splits.prefill_engine], seats[splits.decode_engine]
    group = np.where(decode[:, 1] >= 0, decode[:, 1], prefill[:, 1])
    ids = np.array([splits.text(row) for row in range(len(splits))], object)
    group = np.where(group >= 0, group, nobody)
    return Over(splits, ids, at, prefill[:, 0], decode[:, 0], group, prompt_ranges(splits.prompt_tokens))


def add_requests(store: Store, over: Over, objectives: Objectives | None) -> None:
    """Count them."""
    _accounts(store, over)
    _failures(store, over)
    _pushes(store, over)
    timed = over.of(over.splits.timed)
    if len(timed.ids):
        _times(store, timed)
        _slack(store, timed)
        _post(store, timed)
        if objectives is not None:
            _judge(store, timed, objectives)
    _answers(store, over)
    for leg in range(2):
        _legs(store, over, leg)
    _stages_by_engine(store, over)
    _held(store, over)


def _accounts(store: Store, over: Over) -> None:
    """Shape, state, marks, what is missing."""
    splits = over.splits
    store.table("requests_total").add(over.group, splits.shape.astype(int) * len(STATES) + splits.state, 1)
    row, bit = np.nonzero((splits.marks[:, None] >> np.arange(len(MARKS))) & 1)
    store.table("request_marks_total").add(over.group[row], bit, 1)
    short = np.flatnonzero(splits.in_state(State.INCOMPLETE))
    for code in np.unique(splits.shape[short]).tolist():
        mine = short[splits.shape[short] == code]
        row, node = np.nonzero(splits.missing[mine])
        name = {at: labels.MISSABLE.index(missing_name(SHAPES[code], at)) for at in np.unique(node).tolist()}
        columns = np.array([name[at] for at in node.tolist()], int)
        store.table("requests_missing_total").add(over.group[mine][row], columns, 1)


def _failures(store: Store, over: Over) -> None:
    leg, reason = over.splits.failure[:, 0], over.splits.failure[:, 1]
    reason = np.where((reason > 0) & (reason < len(REASONS)), reason, 0)
    for side, code in enumerate((_PREFILL, _DECODE)):
        struck = leg == code
        columns = side * len(labels.FAILURES) + labels.FAILURE_OF_REASON[reason[struck]]
        store.table("request_failures_total").add(over.group[struck], columns, 1)
        struck &= over.side(side) >= 0
        kinds = labels.TROUBLE_OF_REASON[reason[struck]]
        store.table("engine_failures_total").add(over.side(side)[struck], kinds, 1)


def _pushes(store: Store, over: Over) -> None:
    """By whether the router could have let them overlap with prefill."""
    pushed = over.splits.complete & over.splits.shaped("push") & (over.splits.knew >= 0)
    store.table("pushes_total").add(over.group[pushed], over.splits.knew[pushed].astype(int), 1)


def _times(store: Store, timed: Over) -> None:
    """TTFT, and what it was made of, by class and stage, on the path and off it."""
    splits = timed.splits
    store.histogram("ttft_seconds").observe_of(timed.ids, timed.at, timed.group, timed.prompt, splits.ttft)
    for exposure, ns in enumerate((splits.exposed, splits.hidden)):
        row, stage = np.nonzero(ns)
        columns = timed.prompt[row] * _WIDTH + _COLUMNS[exposure][stage]
        stages, times = store.histogram("stage_seconds"), ns[row, stage]
        if exposure:
            stages.observe(timed.group[row], columns, times)
        else:
            stages.observe_of(timed.ids[row], timed.at, timed.group[row], columns, times)
        classes = np.zeros((len(ns), _CLASSES), np.int64)
        np.add.at(classes, (row, _CLASS_OF_STAGE[stage]), ns[row, stage])
        row, cls = np.nonzero(classes)
        columns = (timed.prompt[row] * _CLASSES + cls) * len(labels.EXPOSURES) + exposure
        store.histogram("class_seconds").observe(timed.group[row], columns, classes[row, cls])


def _slack(store: Store, timed: Over) -> None:
    for branch in range(len(BRANCHES)):
        for bound in range(len(labels.BOUNDS)):
            ns = timed.splits.slack[:, branch, bound]
            rows = np.flatnonzero(ns != UNKNOWN)
            column = branch * len(labels.BOUNDS) + bound
            store.histogram("slack_seconds").observe_of(timed.ids[rows], timed.at, timed.group[rows], column, ns[rows])


def _post(store: Store, timed: Over) -> None:
    splits = timed.splits
    ns = splits.stage("prepare") + splits.stage("submit")
    rows = np.flatnonzero(splits.ranks > 0)
    thread = splits.post_thread[rows].astype(int)
    store.histogram("post_seconds").observe_of(timed.ids[rows], timed.at, timed.group[rows], thread, ns[rows])


def _judge(store: Store, timed: Over, objectives: Objectives) -> None:
    splits = timed.splits
    for column, (ns, limit) in enumerate(((splits.ttft, objectives.ttft_ns), (splits.tpot, objectives.tpot_ns))):
        if limit is not None:
            missed = (ns > limit).astype(int)  # a single token keeps any limit for those after the first
            store.table("requests_judged_total").add(timed.group, column * len(labels.OUTCOMES) + missed, 1)
    slow = np.flatnonzero(splits.ttft > (objectives.ttft_ns or np.iinfo(np.int64).max))
    store.table("slow_requests_total").add(timed.group[slow], timed.prompt[slow], 1)
    row, stage = np.nonzero(splits.exposed[slow])
    columns = timed.prompt[slow][row] * _CLASSES + _CLASS_OF_STAGE[stage]
    store.table("slow_class_seconds_total").add(timed.group[slow][row], columns, splits.exposed[slow][row, stage])


def _answers(store: Store, over: Over) -> None:
    """The time per token, of whatever finished."""
    tpot = over.splits.tpot
    rows = np.flatnonzero(~np.isnan(tpot))
    ns = np.round(tpot[rows]).astype(np.int64)
    store.histogram("tpot_seconds").observe_of(over.ids[rows], over.at, over.group[rows], 0, ns)


def _legs(store: Store, over: Over, leg: int) -> None:
    """What is counted at either end."""
    splits, row = over.splits, over.side(leg)
    here = row >= 0
    store.table("engine_legs_total").add(row[here], leg, 1)
    sent = here & (TRANSFERRING[splits.shape] | (splits.ranks > 0))
    store.table("engine_transfers_total").add(row[sent], leg, 1)
    for name, values in (("bytes", splits.transfer_bytes), ("descriptors", splits.descriptors)):
        told = sent & (values != UNKNOWN)
        store.table(f"engine_transfer_{name}_total").add(row[told], leg, values[told])


def _stages_by_engine(store: Store, over: Over) -> None:
    for leg in range(2):
        ns = lengths_at(over.splits, leg)
        row, stage = np.nonzero((ns > 0) & (over.side(leg) >= 0)[:, None])
        store.table("engine_stage_seconds_total").add(over.side(leg)[row], stage, ns[row, stage])


def _held(store: Store, over: Over) -> None:
    """Blocks that were held and could do nothing."""
    splits = over.splits
    sides = (
        ("reserved_idle", over.decode, splits.reserved_idle, splits.reserved_blocks),
        ("pinned", over.prefill, splits.pinned, splits.pinned_blocks),
    )
    for name, row, ns, blocks in sides:
        here = (row >= 0) & (ns != UNKNOWN)
        store.table(f"engine_{name}_seconds_total").add(row[here], 0, ns[here])
        here &= blocks != UNKNOWN
        area = ns[here].astype(float) * blocks[here]
        store.table(f"engine_{name}_block_seconds_total").add(row[here], 0, area)

"""Requests as the columns of their table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from kvscope.model.events import Process
from kvscope.model.graph import ALL_NODES, BRANCHES
from kvscope.model.requests import STATES
from kvscope.model.shapes import SHAPES, missing_name
from kvscope.model.splits import DISPATCH_PARTS, MARKS, Splits
from kvscope.model.stages import STAGES, Class
from kvscope.probe.vocabulary import LEGS, MOMENTS, REASONS, THREADS, UNKNOWN
from kvscope.sources.keys import sound, text_of_key
from kvscope.sources.parquet.columns import NODES_AT, at_name
from kvscope.sources.parquet.rows import numbers, words_at

Columns = dict[str, pa.Array]
_NUMBERS = (
    *("prompt_tokens", "cached_tokens", "output_tokens", "transfer_bytes", "descriptors"),
    *("reserved_blocks", "pinned_blocks"),
)
_TIMES = {
    **{name: f"{name}_ns" for name in ("origin", "first_token", "ttft", "reserved_idle", "pinned", "largest_gap")},
    "rank_spread": "rank_spread_ns",
}
"""Column of Splits -> column of the table"""


def request_columns(splits: Splits) -> Columns:
    """Requests -> the columns of REQUESTS."""
    return {
        **_ids(splits),
        **{name: numbers(getattr(splits, name)) for name in _NUMBERS},
        **{named: numbers(getattr(splits, name)) for name, named in _TIMES.items()},
        **_what(splits),
        **_engines(splits),
        **_transfer(splits),
        **_ends(splits),
        **_stages(splits),
        **{at_name(ALL_NODES[node]): numbers(np.ascontiguousarray(splits.time[:, node])) for node in NODES_AT},
    }


def _ids(splits: Splits) -> Columns:
    found = {}
    for name, keys in (("request", splits.request), ("peer_request", splits.peer_request)):
        ids = [sound(text_of_key(key, splits.texts)) if key else None for key in keys.tolist()]
        found[name] = pa.array(ids, pa.string())
    return found


def _what(splits: Splits) -> Columns:
    return {
        "shape": words_at(splits.shape.astype(np.int32), [shape.name for shape in SHAPES]),
        "state": words_at(splits.state.astype(np.int32), [str(state) for state in STATES]),
        "complete": pa.array(splits.complete),
        "missing": pa.array(_missing(splits), pa.list_(pa.string())),
        "marks": pa.array(_marks(splits), pa.list_(pa.string())),
        "knew_peer": pa.array(splits.knew > 0, mask=splits.knew < 0),
    }


def _missing(splits: Splits) -> list[list[str]]:
    names: list[list[str]] = [[] for _ in range(len(splits))]
    for row, node in np.argwhere(splits.missing).tolist():
        names[row].append(missing_name(SHAPES[splits.shape[row]], node))
    return names


def _marks(splits: Splits) -> list[list[str]]:
    sets = {bits: [name for bit, name in enumerate(MARKS) if bits >> bit & 1] for bits in set(splits.marks.tolist())}
    return [sets[bits] for bits in splits.marks.tolist()]


def _engines(splits: Splits) -> Columns:
    names, ids = [each.engine for each in splits.engines], [each.engine_id for each in splits.engines]
    found: Columns = {"origin_time": _origin_time(splits)}
    for side, index in (("prefill", splits.prefill_engine), ("decode", splits.decode_engine)):
        found[f"{side}_engine"], found[f"{side}_engine_id"] = words_at(index, names), words_at(index, ids)
    return found


def _origin_time(splits: Splits) -> pa.Array:
    """By the clock of the engine that had it first."""
    offset = _offsets(splits.engines)
    first = np.where(splits.prefill_engine >= 0, splits.prefill_engine, splits.decode_engine)
    known = (offset[first] != UNKNOWN) & (splits.origin != UNKNOWN)
    wall = np.where(known, splits.origin + np.where(known, offset[first], 0), 0)
    return pa.array(wall // 1000, mask=~known).cast(pa.timestamp("us", "UTC"))


def _offsets(engines: Sequence[Process]) -> np.ndarray:
    """(engines + 1,) ns to add for the time of day, UNKNOWN where nobody told; the last is of no engine."""
    return np.array([*(UNKNOWN if each.wall_ns is None else each.wall_ns for each in engines), UNKNOWN], np.int64)


def _transfer(splits: Splits) -> Columns:
    several = splits.slowest_rank.astype(np.int32)
    return {
        "ranks": pa.array(splits.ranks.astype(np.int32)),
        "slowest_prefill_rank": pa.array(several[:, 0].copy(), mask=several[:, 0] < 0),
        "slowest_decode_rank": pa.array(several[:, 1].copy(), mask=several[:, 0] < 0),
        "post_thread": _named(splits.post_thread, THREADS),
    }


def _named(codes: np.ndarray, words: tuple[str, ...]) -> pa.Array:
    """The first word stands for nothing."""
    codes = codes.astype(np.int32)
    return words_at(np.where((codes > 0) & (codes < len(words)), codes, -1), words)


def _ends(splits: Splits) -> Columns:
    tpot = splits.tpot
    last = [f"{LEGS[leg]} {MOMENTS[moment]}" for leg, moment in splits.last_moment[:, :2].tolist()]
    return {
        "tpot_ns": pa.array(tpot, mask=np.isnan(tpot)),
        "finish_reason": _named(splits.finish_reason, REASONS),
        "failure": pa.array(_failures(splits), pa.string()).dictionary_encode(),
        "last_moment": pa.array(last, pa.string()).dictionary_encode(),
        "last_moment_ns": numbers(np.ascontiguousarray(splits.last_moment[:, 2])),
    }


def _failures(splits: Splits) -> list[str | None]:
    found: list[str | None] = [None] * len(splits)
    for row in np.flatnonzero(splits.failure[:, 0]).tolist():
        leg, reason, own = splits.failure[row].tolist()
        known = REASONS[reason] if 0 < reason < len(REASONS) else ""
        found[row] = sound(f"{LEGS[leg]} {known or splits.texts.get(own & 0xFFFF_FFFF_FFFF_FFFF, 'failed')}")
    return found


def _stages(splits: Splits) -> Columns:
    found: Columns = {}
    for index, stage in enumerate(STAGES):
        found[f"exposed_{stage.name}_ns"] = pa.array(np.ascontiguousarray(splits.exposed[:, index]))
        found[f"hidden_{stage.name}_ns"] = pa.array(np.ascontiguousarray(splits.hidden[:, index]))
    for cls in Class:
        name, (low, high) = str(cls).replace(" ", "_"), splits.class_bounds(cls)
        found |= {f"{name}_low_ns": pa.array(low), f"{name}_high_ns": pa.array(high), f"{name}_ns": pa.array(low)}
    for index, branch in enumerate(BRANCHES):
        for bound, column in enumerate(("low", "high")):
            found[f"slack_{branch}_{column}_ns"] = numbers(np.ascontiguousarray(splits.slack[:, index, bound]))
    for index, part in enumerate(DISPATCH_PARTS):
        found[f"dispatch_{part}_ns"] = numbers(np.ascontiguousarray(splits.dispatch_parts[:, index]))
    return found

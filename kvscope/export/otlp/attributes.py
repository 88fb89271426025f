"""What the root span of a request says of it: one table, from the columns that every report is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from kvscope.export.otlp.resources import keyed, model_of
from kvscope.model.ids import base_id
from kvscope.model.requests import STATES, State
from kvscope.model.shapes import SHAPES, missing_name
from kvscope.model.splits import DISPATCH_PARTS, MARKS, Splits, text_of
from kvscope.model.stages import Class
from kvscope.probe.vocabulary import LEGS, MOMENTS, REASONS, UNKNOWN

Told = Iterator[object]
"""For each request what is to be said, None for nothing."""

CHAT, TEXT = "chat", "text_completion"


def operation_of(request: str) -> str:
    """What the conventions call the API that was asked, by the id that vLLM makes for it; else nothing."""
    base = request.split("_", 1)[-1] if request[:1].isdigit() else request
    return CHAT if base.startswith("chatcmpl-") else TEXT if base.startswith("cmpl-") else ""


def _numbers(column: np.ndarray, known: np.ndarray | None = None) -> Told:
    left_out = (column == UNKNOWN) if known is None else ~known
    return (None if out else value for value, out in zip(column.tolist(), left_out.tolist(), strict=True))


def _seconds(column: np.ndarray, known: np.ndarray) -> Told:
    return (ns / 1e9 if there else None for ns, there in zip(column.tolist(), known.tolist(), strict=True))


def _texts(keys: np.ndarray, texts: dict[int, str]) -> Told:
    return (text_of(texts, key) or None for key in keys.tolist())


def _ids(splits: Splits) -> list[str]:
    return [text_of(splits.texts, key) for key in splits.request.tolist()]


def _engines(splits: Splits, seat: np.ndarray) -> Told:
    return (splits.engines[index].engine if index >= 0 else None for index in seat.tolist())


def _models(splits: Splits) -> Told:
    models = [model_of(engine) for engine in splits.engines]
    seats = zip(splits.decode_engine.tolist(), splits.prefill_engine.tolist(), strict=True)
    for decode, prefill in seats:
        found = [models[index] for index in (decode, prefill) if index >= 0 and models[index]]
        yield found[0] if found else None


def _reasons(codes: np.ndarray) -> Told:
    return ([REASONS[code]] if 0 < code < len(REASONS) else None for code in codes.tolist())


def _missing(splits: Splits) -> Told:
    for shape, missing in zip(splits.shape.tolist(), splits.missing, strict=True):
        names = [missing_name(SHAPES[shape], node) for node in np.flatnonzero(missing).tolist()]
        yield names or None


def _marks(splits: Splits) -> Told:
    for bits in splits.marks.tolist():
        yield [name for bit, name in enumerate(MARKS) if bits >> bit & 1] or None


def failures(splits: Splits) -> Told:
    """The reason of each request's first failure."""
    for leg, reason, own in splits.failure.tolist():
        known = (
            REASONS[reason] if 0 < reason < len(REASONS) else splits.texts.get(own & 0xFFFF_FFFF_FFFF_FFFF, "failed")
        )
        yield known if leg else None


def _failed_legs(splits: Splits) -> Told:
    return (LEGS[leg] if leg else None for leg in splits.failure[:, 0].tolist())


def _last_moments(splits: Splits) -> Told:
    return (f"{LEGS[leg]} {MOMENTS[moment]}" for leg, moment in splits.last_moment[:, :2].tolist())


def _knew(splits: Splits) -> Told:
    return (None if knew < 0 else bool(knew) for knew in splits.knew.tolist())


def _class(cls: Class, bound: int) -> Callable[[Splits], Told]:
    return lambda splits: _numbers(splits.class_bounds(cls)[bound], splits.timed)


def _slack(branch: int, bound: int) -> Callable[[Splits], Told]:
    return lambda splits: _numbers(splits.slack[:, branch, bound])


def _part(index: int) -> Callable[[Splits], Told]:
    return lambda splits: _numbers(splits.dispatch_parts[:, index])


def _unfinished(splits: Splits) -> Told:
    return _numbers(splits.age, splits.in_state(State.UNFINISHED))


_COORDINATION, _TRANSFER = Class.COORDINATION, Class.TRANSFER

ATTRIBUTES: dict[str, tuple[str, Callable[[Splits], Told]]] = {
    "gen_ai.operation.name": ("`chat` or `text_completion`", lambda s: (operation_of(id_) or None for id_ in _ids(s))),
    "gen_ai.provider.name": ("`vllm`", lambda s: ("vllm" for _ in range(len(s)))),
    "gen_ai.request.model": ("the model that the engine serves", _models),
    "gen_ai.request.id": ("vLLM's id of the request, as vLLM's own spans have it", lambda s: map(base_id, _ids(s))),
    "gen_ai.usage.input_tokens": ("tokens of the prompt", lambda s: _numbers(s.prompt_tokens)),
    "gen_ai.usage.cache_read.input_tokens": ("of these, cached on the engine", lambda s: _numbers(s.cached_tokens)),
    "gen_ai.usage.output_tokens": ("tokens of the answer", lambda s: _numbers(s.output_tokens)),
    "gen_ai.response.finish_reasons": ("why it ended", lambda s: _reasons(s.finish_reason)),
    "gen_ai.server.time_to_first_token": ("s", lambda s: _seconds(s.ttft, s.timed)),
    "gen_ai.server.time_per_output_token": ("s, after the first", lambda s: _seconds(s.tpot, ~np.isnan(s.tpot))),
    "error.type": ("the reason of its first failure", failures),
    "kvscope.request": (
        "the decode engine's id of it, else the prefill engine's",
        lambda s: _texts(s.request, s.texts),
    ),
    "kvscope.peer_request": ("the prefill engine's id of it", lambda s: _texts(s.peer_request, s.texts)),
    "kvscope.prefill_engine": ("stable name", lambda s: _engines(s, s.prefill_engine)),
    "kvscope.decode_engine": ("stable name", lambda s: _engines(s, s.decode_engine)),
    "kvscope.state": ("complete, or why it is in no percentile", lambda s: (STATES[c].value for c in s.state.tolist())),
    "kvscope.shape": ("push, pull, ..", lambda s: (SHAPES[code].name for code in s.shape.tolist())),
    "kvscope.missing": ("moments that were not seen", _missing),
    "kvscope.marks": ("what is unusual about it", _marks),
    "kvscope.failed_leg": ("leg that its first failure struck", _failed_legs),
    "kvscope.last_moment": ("the latest moment that was seen", _last_moments),
    "kvscope.age_ns": ("of an unfinished one: its age at the end of the recording", _unfinished),
    "kvscope.decode_sent_knowing": ("decode was sent knowing prefill's outcome", _knew),
    "kvscope.ttft_ns": ("time to first token; the next six add up to it", lambda s: _numbers(s.ttft)),
    "kvscope.ttft.frontend_ns": ("", _class(Class.FRONTEND, 0)),
    "kvscope.ttft.compute_wait_ns": ("", _class(Class.COMPUTE_WAIT, 0)),
    "kvscope.ttft.compute_run_ns": ("", _class(Class.COMPUTE_RUN, 0)),
    "kvscope.ttft.coordination_ns": ("", _class(_COORDINATION, 0)),
    "kvscope.ttft.transfer_ns": ("", _class(_TRANSFER, 0)),
    "kvscope.ttft.undetermined_ns": ("", _class(Class.UNDETERMINED, 0)),
    "kvscope.ttft.coordination_high_ns": ("the most that it can have been", _class(_COORDINATION, 1)),
    "kvscope.ttft.transfer_high_ns": ("the most that it can have been", _class(_TRANSFER, 1)),
    "kvscope.slack.registration_low_ns": ("how much later it could have come, at least", _slack(0, 0)),
    "kvscope.slack.registration_high_ns": ("and at most", _slack(0, 1)),
    "kvscope.slack.staging_low_ns": ("how much later it could have come, at least", _slack(1, 0)),
    "kvscope.slack.staging_high_ns": ("and at most", _slack(1, 1)),
    **{
        f"kvscope.dispatch.{name}_ns": ("part of `dispatch`, where the router reports it", _part(index))
        for index, name in enumerate(DISPATCH_PARTS)
    },
    "kvscope.reserved_idle_ns": ("decode's blocks reserved and empty", lambda s: _numbers(s.reserved_idle)),
    "kvscope.reserved_blocks": ("", lambda s: _numbers(s.reserved_blocks)),
    "kvscope.pinned_ns": ("prefill's blocks held after it was computed", lambda s: _numbers(s.pinned)),
    "kvscope.pinned_blocks": ("", lambda s: _numbers(s.pinned_blocks)),
    "kvscope.transfer_bytes": ("", lambda s: _numbers(s.transfer_bytes)),
    "kvscope.descriptors": ("", lambda s: _numbers(s.descriptors)),
    "kvscope.ranks": ("transfers that made up the handoff", lambda s: _numbers(s.ranks, s.ranks > 0)),
    "kvscope.rank_spread_ns": (
        "the last transfer's end less the first's",
        lambda s: _numbers(s.rank_spread, s.ranks > 1),
    ),
    "kvscope.largest_gap_ns": ("largest time between two tokens", lambda s: _numbers(s.largest_gap)),
}
"""attribute -> (meaning, of each request); the conventions' names where they have one"""


def attributes_of(splits: Splits) -> list[list[KeyValue]]:
    """For each request what is known of it."""
    found: list[list[KeyValue]] = [[] for _ in range(len(splits))]
    for name, (_, ask) in ATTRIBUTES.items():
        for attributes, value in zip(found, ask(splits), strict=True):
            if value is not None:
                attributes.append(keyed(name, value))
    return found

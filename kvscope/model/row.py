"""One row of `Splits` as a `RequestSplit`: spans in time order, names instead of codes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kvscope.model.graph import ALL_NODES, BRANCHES, NODES, STAGE_OF
from kvscope.model.requests import STATES, Bounds, RequestSplit, Span, Stamp, State
from kvscope.model.shapes import SHAPE_CODE, SHAPES, missing_name
from kvscope.model.splits import DISPATCH_PARTS, MARKS, Splits, text_of
from kvscope.model.stages import STAGES, Class
from kvscope.probe.vocabulary import LEGS, MOMENTS, REASONS, THREADS, UNKNOWN


def request_split(splits: Splits, row: int) -> RequestSplit:
    """Everything the columns hold of one request."""
    shape, state = SHAPES[splits.shape[row]], STATES[splits.state[row]]
    exposed, hidden = _stages(splits.exposed[row]), _stages(splits.hidden[row])
    classes = class_bounds(exposed)
    pull = _pulled(splits, row)
    unfinished = state is State.UNFINISHED
    tpot = float(splits.tpot[row])
    return RequestSplit(
        request=splits.text(row),
        peer_request=text_of(splits.texts, int(splits.peer_request[row])),
        shape=shape.name,
        state=state,
        missing=tuple(missing_name(shape, node) for node in np.flatnonzero(splits.missing[row]).tolist()),
        origin=_known(splits.origin[row]),
        first_token=_known(splits.first_token[row]),
        ttft_ns=_known(splits.ttft[row]),
        path=_spans(splits, row, 0, pull),
        hidden_spans=tuple(
            sorted((*_spans(splits, row, 1, pull), *_spans(splits, row, 2, pull)), key=lambda span: span.begin)
        ),
        exposed=exposed,
        hidden=hidden,
        slack_ns=_slack(splits.slack[row]),
        class_ns={str(cls): bounds for cls, bounds in classes.items()},
        coordination_ns=classes[Class.COORDINATION],
        transfer_bounds_ns=classes[Class.TRANSFER],
        dispatch_parts={
            name: int(ns) for name, ns in zip(DISPATCH_PARTS, splits.dispatch_parts[row], strict=True) if ns != UNKNOWN
        },
        reserved_idle_ns=_known(splits.reserved_idle[row]),
        reserved_blocks=_known(splits.reserved_blocks[row]),
        pinned_ns=_known(splits.pinned[row]),
        pinned_blocks=_known(splits.pinned_blocks[row]),
        prefill_engine=_engine(splits, int(splits.prefill_engine[row])),
        decode_engine=_engine(splits, int(splits.decode_engine[row])),
        prompt_tokens=_known(splits.prompt_tokens[row]),
        cached_tokens=_known(splits.cached_tokens[row]),
        output_tokens=_known(splits.output_tokens[row]),
        transfer_bytes=_known(splits.transfer_bytes[row]),
        descriptors=_known(splits.descriptors[row]),
        ranks=int(splits.ranks[row]),
        rank_spread_ns=int(splits.rank_spread[row]),
        slowest_rank=_ranks(splits.slowest_rank[row]),
        post_thread=THREADS[splits.post_thread[row]],
        tpot_ns=None if np.isnan(tpot) else tpot,
        largest_gap_ns=_known(splits.largest_gap[row]),
        finish_reason=_reason(int(splits.finish_reason[row])),
        failure=_failure(splits, row),
        last_moment=f"{LEGS[splits.last_moment[row, 0]]} {MOMENTS[splits.last_moment[row, 1]]}",
        age_ns=int(splits.age[row]) if unfinished else None,
        idle_ns=int(splits.idle[row]) if unfinished else None,
        marks=tuple(name for bit, name in enumerate(MARKS) if splits.marks[row] >> bit & 1),
        knew_peer=None if splits.knew[row] < 0 else bool(splits.knew[row]),
        stamps=_stamps(splits, row, pull),
        clock_bound_ns=_known(splits.clock_bound[row]),
        between_clocks=_between_clocks(splits, row),
        moved_ns={leg: int(ns) for leg, ns in zip(("prefill", "decode"), splits.moved[row], strict=True) if ns},
    )


def class_bounds(exposed: Mapping[str, int]) -> dict[Class, Bounds]:
    """ns by class, low and high, of ns by stage: coordination, transfer may each hold what is undetermined."""
    undetermined = exposed.get("submit", 0) + exposed.get("poll_gap", 0)
    bounds = {}
    for cls in Class:
        low = sum(exposed.get(stage.name, 0) for stage in STAGES if stage.cls is cls)
        bounds[cls] = (low, low + undetermined * (cls in (Class.COORDINATION, Class.TRANSFER)))
    return bounds


def _known(value: np.int64) -> int | None:
    return None if value == UNKNOWN else int(value)


def _stages(ns: np.ndarray) -> dict[str, int]:
    return {stage.name: int(length) for stage, length in zip(STAGES, ns, strict=True) if length}


def _pulled(splits: Splits, row: int) -> bool:
    return bool(splits.shape[row] in (SHAPE_CODE["pull"], SHAPE_CODE["return_read"]))


def _leg(node: int, pull: bool) -> str:
    leg = ALL_NODES[node].leg
    if leg == "poster":
        return "decode" if pull else "prefill"
    if leg == "none":
        return "prefill" if ALL_NODES[node].name.startswith("P.") else "decode"
    return leg


def _spans(splits: Splits, row: int, walk: int, pull: bool) -> tuple[Span, ...]:
    """The walk of one row again, cut where pieces were carved out; zero-length spans left out."""
    nodes = np.flatnonzero(splits.walks[row, walk]).tolist()
    times = splits.time[row, nodes]
    times = np.minimum.accumulate(times[::-1])[::-1].tolist()
    cuts = _carves(splits, row, walk)
    spans: list[Span] = []
    crossed, bound = set(_between_clocks(splits, row)), max(0, int(splits.clock_bound[row]))
    for frm, to, begin, end in zip(nodes, nodes[1:], times, times[1:], strict=False):
        stage = STAGES[STAGE_OF[to, frm]].name
        step = int(splits.step[row, to]) or None
        for name, low, high in _pieces(stage, begin, end, cuts.get(to, [])):
            wrong_by = bound if name == stage and name in crossed else 0
            spans.append(Span(name, low, high, NODES[to].name, _leg(to, pull), step, walk == 0, wrong_by))
    return tuple(span for span in spans if span.ns)


def _between_clocks(splits: Splits, row: int) -> tuple[str, ...]:
    bits = int(splits.between_clocks[row])
    return tuple(stage.name for bit, stage in enumerate(STAGES) if bits >> bit & 1)


def _carves(splits: Splits, row: int, walk: int) -> dict[int, list[tuple[str, int, int]]]:
    low, high = np.searchsorted(splits.carves["row"], [row, row + 1])
    cuts: dict[int, list[tuple[str, int, int]]] = {}
    for piece in splits.carves[low:high]:
        if piece["walk"] == walk:
            cut = (STAGES[piece["stage"]].name, int(piece["begin"]), int(piece["end"]))
            cuts.setdefault(int(piece["node"]), []).append(cut)
    return cuts


def _pieces(stage: str, begin: int, end: int, cuts: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    pieces = []
    for name, low, high in cuts:
        pieces += [(stage, begin, low), (name, low, high)]
        begin = high
    return [*pieces, (stage, begin, end)]


def _slack(slack: np.ndarray) -> dict[str, Bounds]:
    pairs = zip(BRANCHES, slack.tolist(), strict=True)
    return {branch: (low, high) for branch, (low, high) in pairs if low != UNKNOWN}


def _engine(splits: Splits, index: int) -> str:
    return splits.engines[index].engine if index >= 0 else ""


def _ranks(ranks: np.ndarray) -> tuple[int, int] | None:
    return None if ranks[0] < 0 else (int(ranks[0]), int(ranks[1]))


def _reason(code: int) -> str:
    return REASONS[code] if 0 < code < len(REASONS) else ""


def _failure(splits: Splits, row: int) -> str:
    leg, reason, own = splits.failure[row].tolist()
    text = _reason(reason) or splits.texts.get(own & 0xFFFF_FFFF_FFFF_FFFF, "failed")
    return f"{LEGS[leg]} {text}" if leg else ""


def _stamps(splits: Splits, row: int, pull: bool) -> tuple[Stamp, ...]:
    stamps = [
        Stamp(
            _leg(node, pull),
            ALL_NODES[node].moment,
            int(splits.time[row, node]),
            int(splits.step[row, node]) or None,
            THREADS[splits.thread[row, node]],
        )
        for node in np.flatnonzero(splits.time[row] != UNKNOWN).tolist()
        if ALL_NODES[node].moment
    ]
    return tuple(sorted(set(stamps), key=lambda stamp: (stamp.t, MOMENTS.index(stamp.moment))))

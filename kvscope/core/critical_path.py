"""Events in, splits out: where each request's time to first token went. Everything here is a pure function."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kvscope.core.alignment import Alignment
from kvscope.core.carve import carve
from kvscope.core.classify import Classes, classify
from kvscope.core.clocks import lags
from kvscope.core.columns import Columns, gather_columns
from kvscope.core.cut import cut_legs
from kvscope.core.hosts import Hosts
from kvscope.core.join import Joined, join
from kvscope.core.latest import last_moments
from kvscope.core.legs import NONE, Legs, gather_legs
from kvscope.core.ranks import Ranks, slowest_ranks
from kvscope.core.walk import Masks, Walk, between_clocks, masks, slacks, walk
from kvscope.model.events import Events
from kvscope.model.graph import FIRST_TOKEN, NODE, NODES, ORIGIN
from kvscope.model.requests import STATES, State
from kvscope.model.splits import MARKS, Splits
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE, UNKNOWN


@dataclass(frozen=True)
class Solution:
    """Splits, row by row beside the legs they came from."""

    legs: Legs
    joined: Joined
    splits: Splits
    violations: np.ndarray
    """(n,) moments that lay after one that depends on them"""
    cut: np.ndarray
    """(legs,) bool, as of `cut_legs`"""
    aligned: Alignment
    """What the requests and handshakes among them tell of the clocks of hosts, and what was made of it"""


def split(events: Events, now: int | None = None, hosts: Hosts | None = None) -> Splits:
    """Join the legs of every request and walk its path. `now` (ns; default: the latest event) ages the unfinished;
    `hosts`: what else is known of their clocks, or that they are to be left alone."""
    return ordered(solve(events, now, hosts=hosts).splits)


def ordered(splits: Splits, rows: np.ndarray | None = None) -> Splits:
    """All, or those of rows, (n,) bool: by origin; requests that share one, by their last moment and ids."""
    at = np.arange(len(splits)) if rows is None else np.flatnonzero(rows)
    keys = (splits.peer_request, splits.request, splits.last_moment[:, 2], splits.origin)
    return splits.select(at[np.lexsort([key[at] for key in keys])])


def solve(
    events: Events, now: int | None = None, lag: np.ndarray | None = None, hosts: Hosts | None = None
) -> Solution:
    """As `split`, in the order of the join, with the join. `lag`: as of `clocks`, where more than `events` was seen."""
    legs = gather_legs(events)
    joined = join(legs)
    ranks = slowest_ranks(legs, joined)
    latest = int(legs.rows["t"].max(initial=0)) if now is None else now
    lag = lags(events.processes, legs.rows) if lag is None else lag
    aligned = (hosts or Hosts()).align(gather_columns(legs, joined, ranks), events.processes, lag, latest)
    columns, joined = aligned.columns, aligned.columns.joined
    cut = cut_legs(legs, events.processes, latest)
    classes = classify(columns, cut)
    chosen = masks(columns, classes)
    time = columns.time[: len(NODES)]
    walks = (walk(time, chosen.path), walk(time, chosen.registration), walk(time, chosen.staging))
    carves = carve(columns, walks)
    splits = _assemble(columns, classes, ranks, chosen, walks, carves, latest, lag, aligned)
    return Solution(legs, joined, splits, walks[0].violations + aligned.violations, cut, aligned)


def _assemble(
    columns: Columns,
    classes: Classes,
    ranks: Ranks,
    chosen: Masks,
    walks: tuple[Walk, Walk, Walk],
    carves: np.ndarray,
    now: int,
    lag: np.ndarray,
    aligned: Alignment,
) -> Splits:
    joined, legs = columns.joined, columns.legs
    timed = (classes.state == STATES.index(State.COMPLETE)) & columns.has("first_token") & columns.has("origin")
    origin, first_token = columns.time[ORIGIN], columns.time[FIRST_TOKEN]
    # Moments out of order (a clock that is off) can leave a path that does not add up: no percentile may hold it.
    torn = timed & ((walks[0].stages.sum(axis=0) != first_token - origin) | (first_token < origin))
    timed &= ~torn
    both = (joined.prefill != NONE) & (joined.decode != NONE)
    requests = np.append(legs.request, np.uint64(0))
    engines = np.append(legs.engine, np.int32(NONE)).astype(np.int32)
    poster = np.where(classes.pull, joined.decode, joined.prefill)
    apart = joined.unaligned & ~classes.pull  # there one engine reserved, and another saw the transfer's end
    violations = walks[0].violations + aligned.violations
    last_moment, behind = last_moments(columns, lag, aligned.behind)
    return Splits(
        request=np.where(joined.decode != NONE, requests[joined.decode], requests[joined.prefill]),
        peer_request=np.where(both, requests[joined.prefill], np.uint64(0)),
        shape=classes.shape,
        state=np.where(torn, np.uint8(STATES.index(State.INCOMPLETE)), classes.state),
        missing=classes.missing.T,
        time=columns.time.T,
        step=_fields(columns, "step"),
        thread=_fields(columns, "thread"),
        walks=np.stack((chosen.path, chosen.registration, chosen.staging)).transpose(2, 0, 1),
        carves=carves,
        origin=origin,
        first_token=first_token,
        ttft=np.where(timed, first_token - origin, UNKNOWN),
        exposed=walks[0].stages.T,
        hidden=(walks[1].stages + walks[2].stages).T,
        slack=slacks(columns, chosen.through_registration, classes).transpose(2, 0, 1),
        dispatch_parts=_dispatch(columns, classes.knew == 1),
        knew=classes.knew,
        reserved_idle=np.where(apart, UNKNOWN, _between(columns, "D.reserved", "transferred")),
        reserved_blocks=columns.value("D.reserved", "blocks"),
        pinned=np.where(_first_of_shared(joined), _between(columns, "P.computed", "P.released"), UNKNOWN),
        pinned_blocks=columns.value("P.computed", "blocks"),
        prefill_engine=engines[joined.prefill],
        decode_engine=engines[joined.decode],
        prompt_tokens=_first_known(columns.value("D.queued", "tokens"), columns.value("P.queued", "tokens")),
        cached_tokens=_first_known(columns.value("P.scheduled", "cached"), columns.value("D.reserved", "cached")),
        output_tokens=columns.value("D.finished", "tokens"),
        transfer_bytes=columns.value("done_seen", "bytes"),
        descriptors=_first_known(columns.value("posted", "descriptors"), columns.value("done_seen", "descriptors")),
        ranks=np.append(ranks.transfers, 0)[poster],
        rank_spread=np.append(ranks.spread, 0)[poster],
        slowest_rank=_slowest(ranks, poster, classes.pull),
        post_thread=columns.field("posted", "thread"),
        largest_gap=columns.value("D.finished", "largest_gap"),
        finish_reason=columns.field("D.finished", "reason"),
        failure=_failure(columns),
        last_moment=last_moment,
        behind=behind,
        marks=_marks(columns, classes, violations),
        clock_bound=aligned.bound,
        between_clocks=_between_clocks(columns, chosen),
        moved=_moved(columns),
        engines=legs.engines.engines,
        texts=legs.texts,
        now=now,
        tally=replace(joined.tally, order_violations=int(violations.sum())),
        clocks=aligned.clocks,
    )


def _between_clocks(columns: Columns, chosen: Masks) -> np.ndarray:
    if columns.moved is None:
        return np.zeros(len(columns), np.uint32)
    return between_clocks(columns.time, columns.moved.seat, chosen.path, chosen.registration, chosen.staging)


def _moved(columns: Columns) -> np.ndarray:
    """(n, 2) ns added to the stamps of the prefill leg and of the end of the decode leg"""
    if columns.moved is None:
        return np.zeros((len(columns), 2), np.int64)
    return np.ascontiguousarray(columns.moved.shift[[NODE["P.computed"], FIRST_TOKEN]].T)


def _fields(columns: Columns, name: str) -> np.ndarray:
    """(n, ALL_NODES) a field of each node's event, 0 where there is none."""
    column = columns.legs.rows[name]
    nothing = column.dtype.type(0)
    return np.asarray(np.where(columns.at == NONE, nothing, np.ascontiguousarray(column)[columns.at]).T)


def _between(columns: Columns, begin: str, end: str) -> np.ndarray:
    known = columns.has(begin) & columns.has(end) & (columns.t(end) >= columns.t(begin))
    return np.where(known, columns.t(end) - columns.t(begin), UNKNOWN)


def _first_known(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.where(one == UNKNOWN, other, one)


def _first_of_shared(joined: Joined) -> np.ndarray:
    """(n,) bool: the row that counts for its prefill leg; children of one prompt share one."""
    _, first = np.unique(joined.prefill, return_index=True)
    counts = np.zeros(len(joined.prefill), bool)
    counts[first] = True
    return np.asarray(counts & (joined.prefill != NONE))


def _shared(joined: Joined) -> np.ndarray:
    if not len(joined.prefill):
        return np.zeros(0, bool)
    count = np.bincount(joined.prefill + 1)
    return np.asarray((count[joined.prefill + 1] > 1) & (joined.prefill != NONE))


def _dispatch(columns: Columns, knew: np.ndarray) -> np.ndarray:
    """(n, 3) reply, router_hold, hop, where the router reported them."""
    begin = np.where(knew, columns.t("P.computed"), columns.t("origin"))
    returned = np.where(knew, columns.t("prefill_returned"), begin)
    stamps = np.stack((begin, returned, columns.t("decode_sent"), columns.t("D.arrived")))
    known = (stamps[1:] >= stamps[:-1]) & (stamps[:-1] != UNKNOWN)
    known &= columns.has("decode_sent") & ~columns.joined.unaligned
    return np.asarray(np.where(known, stamps[1:] - stamps[:-1], UNKNOWN).T)


def _slowest(ranks: Ranks, poster: np.ndarray, pull: np.ndarray) -> np.ndarray:
    """(n, 2) prefill rank, decode rank."""
    slowest = np.append(ranks.slowest, np.full((1, 2), NONE), axis=0)[poster]
    return np.asarray(np.where(pull[:, None], slowest[:, ::-1], slowest))


def _failure(columns: Columns) -> np.ndarray:
    """(n, 3) leg, reason and the engine's own words for it, of the first failure on either leg."""
    decode, prefill = columns.t("failed"), columns.t("P.failed")
    on_decode = (decode != UNKNOWN) & ((prefill == UNKNOWN) | (decode <= prefill))
    leg = np.where(on_decode, LEG_CODE["decode"], np.where(prefill != UNKNOWN, LEG_CODE["prefill"], 0))
    reason = np.where(on_decode, columns.field("failed", "reason"), columns.field("P.failed", "reason"))
    own = np.where(on_decode, columns.value("failed", "reason_text"), columns.value("P.failed", "reason_text"))
    return np.stack((leg, reason, own), axis=1)


def _marks(columns: Columns, classes: Classes, violations: np.ndarray) -> np.ndarray:
    joined = columns.joined
    preempted = np.zeros(len(columns.legs.hash) + 1, bool)  # the last is what NONE points at
    preempted[columns.legs.leg[columns.legs.moment == MOMENT_CODE["preempted"]]] = True
    flags = {
        "clock_step": columns.clock_step,
        "recompute": classes.recompute,
        "stale_match": joined.stale,
        "retried": joined.retried,
        "shared_prefill": _shared(joined),
        "preempted": preempted[joined.prefill] | preempted[joined.decode],
        "order_violation": violations > 0,
        "unaligned": joined.unaligned,
    }
    bits = [flags[name].astype(np.uint16) << bit for bit, name in enumerate(MARKS)]
    return np.asarray(np.bitwise_or.reduce(bits))

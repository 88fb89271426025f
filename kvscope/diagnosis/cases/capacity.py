"""Room and time on the engines: decode's blocks, prefill's queue."""

from __future__ import annotations

import numpy as np

from kvscope.analysis.holding import RESERVED as HELD_EMPTY
from kvscope.analysis.holding import gather_held
from kvscope.analysis.price import kv_blocks
from kvscope.diagnosis import lookalikes as look
from kvscope.diagnosis.cases.dispatch import PIECES, lateness
from kvscope.diagnosis.evidence import Evidence
from kvscope.diagnosis.match import COUNT, SHARE, Match, Measure, RuledOut
from kvscope.diagnosis.thresholds import (
    BUSY,
    FEWEST,
    LATE,
    LATE_LEAST,
    MOST_OF,
    NEAR_FULL,
    RARE_LEAST,
    RESERVED,
)
from kvscope.diagnosis.view import View
from kvscope.model.requests import State
from kvscope.probe.vocabulary import UNKNOWN

QUEUE = ("intake", "prefill_queue", "prefill_gap")


def decode_out_of_blocks(view: View) -> Match | None:
    """Requests wait on decode, before they register or read, because its blocks are taken by others that run."""
    now = view.now
    waits = view.timed & (now.held | _behind_held(now)) & (view.excess("decode_admission") > 0)
    waiting = now.splits.in_state(State.UNFINISHED) & now.held & ~now.has("D.reserved") & now.has("D.queued")
    waiting &= view.waited > view.patience
    was, mean = view.both(lambda one: one.stage("decode_admission"))
    grown = mean - (was or 0.0)
    enough = (
        grown >= max(LATE_LEAST.value, LATE.value * view.comparison.usual_ttft)
        and (waits & now.held).sum() >= RARE_LEAST.value
    )
    if view.was is not None and len(now.timed) >= FEWEST.value:
        enough = enough and view.builds_up("decode_admission")
    if not enough and waiting.sum() < RARE_LEAST.value:
        return None
    of_all = float(view.excess("decode_admission")[view.timed].clip(0).sum())
    if enough and float(view.excess("decode_admission")[waits].sum()) < MOST_OF.value * of_all:
        return None
    free = now.free.at(now.splits.decode_engine, now.t("D.held"))[0]
    pieces = lateness(now)[now.late_registration & view.timed]
    router = pieces[:, PIECES.index("dispatch")].mean() if len(pieces) else 0.0
    rows = waits | waiting
    return Match(
        slug="decode-out-of-blocks",
        stage="decode_admission",
        rows=rows,
        excess=np.where(waits, view.excess("decode_admission"), np.where(waiting, view.waited, 0.0)),
        claims=("decode_admission",),
        measured=(
            view.stage("decode_admission"),
            view.measure("held for want of blocks", lambda one: one.held.astype(float), SHARE),
            Measure("decode's blocks free then", None, float(np.nanmedian(free)) if (~np.isnan(free)).any() else np.nan,
                    SHARE),
            view.measure("decode_queue", lambda one: one.stage("decode_queue"), "time"),
        ),
        ruled_out=(
            RuledOut("late-registration", "it lies before decode's arrival", f"dispatch {router / 1e6:.1f} ms of it"),
            RuledOut(
                "aborted-request-pins-blocks",
                "requests that are over hold the blocks",
                f"{int((now.has('D.reserved') & ~now.has('D.released') & now.has('D.finished')).sum())} do",
            ),
            look.slow_transport(view),
        ),
        refuted_by="a request held for want of blocks with a tenth of them free",
        refuted=int((free > max(NEAR_FULL.value, _needed(now))).sum()),
    )  # fmt: skip


def _behind_held(now: Evidence) -> np.ndarray:
    """(n,) bool: queued on decode while the first in line there was held, which decode says of that one alone"""
    queued, held, reserved = now.t("D.queued"), now.t("D.held"), now.t("D.reserved")
    found = np.zeros(len(now), bool)
    whole = (queued != UNKNOWN) & (reserved != UNKNOWN)
    for engine in np.unique(now.splits.decode_engine[now.held & whole]).tolist():
        mine = whole & (now.splits.decode_engine == engine)
        first = np.flatnonzero(mine & now.held & (held != UNKNOWN))
        first = first[np.argsort(held[first], kind="stable")]
        rows = np.flatnonzero(mine)
        at = np.searchsorted(held[first], reserved[rows]) - 1
        until = np.maximum.accumulate(reserved[first]) if len(first) else np.empty(0, np.int64)
        rows, at = rows[at >= 0], at[at >= 0]
        found[rows] = until[at] > queued[rows]
    return found


def _needed(now: Evidence) -> float:
    """Share of decode's blocks that the largest request needs: with less than that free, it waits."""
    blocks, room = now.splits.reserved_blocks, now.setting("kv_blocks", "decode")
    known = blocks[blocks != UNKNOWN]
    return float(known.max()) / room if len(known) and isinstance(room, int) and room else 0.0


def prefill_queue_behind_early_dispatch(view: View) -> Match | None:
    """Dispatched together, decode's deadline and blocks run while the prompt still queues on prefill."""
    now = view.now
    early = now.pushed & ~now.late_registration & now.has("registration_sent")
    deadline = now.failures.first(now.splits, "registration_expired", leg="decode")
    computed = np.where(now.has("P.computed"), now.t("P.computed"), now.splits.now)
    arrived = now.has("P.arrived")
    over = early & (deadline != UNKNOWN) & arrived & (deadline < computed)
    over &= now.has("P.queued")
    reserved = _reserved_share(view)
    queue = view.stands_out(*QUEUE, alone=MOST_OF.value)
    if over.sum() < RARE_LEAST.value and not (queue and reserved >= RESERVED.value and early.any()):
        return None
    waits = early & (view.timed | over)
    claims = _with_run(view, *QUEUE)
    wait = now.between("P.queued", "P.scheduled")
    return Match(
        slug="prefill-queue-behind-early-dispatch",
        stage="prefill_queue",
        rows=waits,
        excess=np.where(waits & view.timed, view.excess(*claims), np.where(waits, view.waited, 0.0)),
        claims=claims,
        measured=(
            Measure("decode's deadline ran out before prefill's end", None, float(over.sum()), COUNT),
            view.stage(*QUEUE, name="prefill's queue"),
            Measure("queued on prefill, longest", None, float(np.nanmax(wait)) if (~np.isnan(wait)).any() else np.nan),
            Measure("decode's blocks reserved and empty", None, reserved, SHARE),
            view.stage("wire"),
        ),
        ruled_out=(
            look.slow_transport(view),
            look.router_late(view, view.grew(*QUEUE)),
            RuledOut("registration-never-matched", "no prefill leg", f"{int((over & arrived).sum())} are queued there"),
        ),
        refuted_by="a request whose deadline ran out while it was not queued on prefill",
        refuted=int((early & (deadline != UNKNOWN) & ~over).sum()),
        detail="decode's wait for remote KV is prefill's queue",
    )


def _reserved_share(view: View) -> float:
    return gather_held(view.now.splits, HELD_EMPTY, kv_blocks(view.now.splits.engines)).capacity or 0.0


def prefill_saturated(view: View) -> Match | None:
    """Prompts wait for prefill longer than they run there: more comes than it can do, or one engine gets it all."""
    queue = ("intake", "prefill_queue")
    now = view.now
    if not view.builds_up(*queue, alone=MOST_OF.value) or view.grew("prefill_gap") > view.grew(*queue):
        return None
    run, wait = (float(now.timed.stage(*names).mean()) for names in (("prefill_run",), queue))
    busy = _busy_while_waiting(now)
    if wait < run or busy < BUSY.value or not _on_prefill(view, wait):
        return None
    rows = view.timed & (now.stage(*queue) > 0)
    claims = _with_run(view, *queue, "prefill_gap")
    return Match(
        slug="prefill-saturated",
        stage=max(queue, key=view.grew),
        rows=rows,
        excess=np.where(rows, view.excess(*claims), 0.0),
        claims=claims,
        measured=(
            view.stage("intake"),
            view.stage("prefill_queue"),
            view.stage("prefill_run"),
            view.measure("prompts at once on prefill", _prompts_at_once, COUNT),
            Measure("prefill in a step while they waited", None, busy, SHARE),
        ),
        ruled_out=(
            look.router_late(view, wait),
            look.slow_transport(view),
            RuledOut(
                "prefill-queue-behind-early-dispatch",
                "decode's deadline or blocks used up",
                f"{_reserved_share(view):.1%} of its blocks, {now.failures.count('registration_expired')} deadlines",
            ),
            look.by_stage(view, "chunked-prefill", wait, "prefill_gap"),
        ),
        refuted_by="a prompt that waited for longer than prompts run while that engine was in no step for half of it",
        refuted=int((rows & (_busy(now) < MOST_OF.value) & (now.stage(*queue) > run)).sum()),
        detail=_skew(now),
    )


def _with_run(view: View, *queue: str) -> tuple[str, ...]:
    """What prompts wait in, and their run where that has grown, too: prompts that queue share steps."""
    grown = view.was is not None and 0 < view.grew("prefill_run") < view.grew(*queue)
    return (*queue, "prefill_run") if grown else queue


def _on_prefill(view: View, wait: float) -> bool:
    """Whether it is prefill's queue that has grown: decode has an intake, too."""
    was, now = view.both(lambda one: np.nan_to_num(one.between("P.taken", "P.scheduled")))
    grown = wait if view.was is None else view.grew("intake", "prefill_queue")
    return now - (was or 0.0) >= MOST_OF.value * grown


def _busy_while_waiting(now: Evidence) -> float:
    """Share of all waits for prefill in which it was in a step; where it told no steps, in which others were there."""
    wait, share = now.between("P.taken", "P.scheduled"), _busy(now)
    waits = now.splits.timed & (wait > 0)
    return float(np.average(share[waits], weights=wait[waits])) if waits.any() else 0.0


def _busy(now: Evidence) -> np.ndarray:
    """(n,) f8 share of each wait for prefill in which that was in a step"""
    share = now.steps.busy(now.splits.prefill_engine, now.t("P.taken"), now.t("P.scheduled"))
    return np.where(np.isnan(share), (_prompts_at_once(now) > 1).astype(float), share)


def _prompts_at_once(evidence: Evidence) -> np.ndarray:
    """(n,) f8 prompts that the request's prefill engine had when it was queued there, itself included"""
    begin, end = evidence.t("P.queued"), evidence.t("P.computed")
    found = np.full(len(evidence), np.nan)
    engines = evidence.splits.prefill_engine
    for engine in np.unique(engines[engines >= 0]).tolist():
        rows = np.flatnonzero((engines == engine) & (begin != UNKNOWN) & (end != UNKNOWN))
        begun = np.searchsorted(np.sort(begin[rows]), begin[rows], "right")
        found[rows] = begun - np.searchsorted(np.sort(end[rows]), begin[rows], "right")
    return found


def _skew(now: Evidence) -> str:
    engines, counts = np.unique(now.splits.prefill_engine[now.splits.prefill_engine >= 0], return_counts=True)
    if len(engines) < 2:
        return ""
    most = int(counts.argmax())
    if counts[most] < 2 * counts.sum() / len(engines):
        return ""
    name = now.splits.engines[int(engines[most])].engine
    return f"{name} gets {counts[most] / counts.sum():.0%} of the prompts of {len(engines)} prefill engines"


def chunked_prefill(view: View) -> Match | None:
    """Steps between a prompt's chunks go to the chunks of others."""
    if not view.stands_out("prefill_gap", alone=LATE.value) or view.grew("prefill_gap") < view.grew("prefill_queue"):
        return None
    rows = view.timed & (view.now.stage("prefill_gap") > 0)
    return Match(
        slug="chunked-prefill",
        stage="prefill_gap",
        rows=rows,
        excess=np.where(rows, view.excess("prefill_gap"), 0.0),
        claims=("prefill_gap",),
        measured=(
            view.stage("prefill_gap"),
            view.stage("prefill_run"),
            view.measure("with gaps", lambda one: (one.stage("prefill_gap") > 0).astype(float), SHARE),
        ),
        ruled_out=(
            look.saturated(view, view.grew("prefill_gap")),
            RuledOut(
                "preempted",
                "preemptions",
                f"{int((rows & view.now.splits.marked('preempted')).sum())} of {int(rows.sum())}",
            ),
            look.slow_transport(view),
        ),
        refuted_by="a gap of a prompt that was preempted",
        refuted=int((rows & view.now.splits.marked("preempted")).sum()),
    )

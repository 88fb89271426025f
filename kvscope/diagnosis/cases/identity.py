"""Who is who: ids used twice, engines that were replaced, prompts in lists, reads in the other direction, clocks."""

from __future__ import annotations

import numpy as np

from kvscope.diagnosis import lookalikes as look
from kvscope.diagnosis.cases.listing import listed
from kvscope.diagnosis.evidence import UNHEARD_OF
from kvscope.diagnosis.match import COUNT, Match, Measure, RuledOut
from kvscope.diagnosis.thresholds import CLOCK, CLOCK_LEAST, RARE_LEAST
from kvscope.diagnosis.view import View
from kvscope.model.requests import State
from kvscope.probe.vocabulary import UNKNOWN

UNKNOWN_PEER = ("invalid_engine", "handshake_failed", "handshake_setup_failed", "push_reg_handshake_failed")


def retry_same_id(view: View) -> Match | None:
    """A retry under the id of an attempt that was over: prefill writes into the first one's blocks."""
    splits = view.now.splits
    stale, retried = splits.marked("stale_match"), splits.marked("retried")
    rows = stale | retried
    if not retried.any():  # a match of one that had just left, and was not tried again, is a race that nobody notices
        return None
    hung = rows & view.hung
    return Match(
        slug="retry-same-id",
        stage="registration_flight",
        rows=rows,
        excess=np.where(hung, view.waited, 0.0),
        measured=(
            Measure("matched after they were over", None, float(stale.sum()), COUNT),
            Measure("retries without their blocks", None, float(retried.sum()), COUNT),
            Measure("of them waiting", None, float(hung.sum()), COUNT),
        ),
        ruled_out=(
            look.lost_leg(view, retried),
            RuledOut("id-mismatch", "halves under different ids", "one id, used twice"),
            look.failed_post(view, retried & ~splits.marked("stale_match")),
        ),
        refuted_by="a match of one of these before its decode leg was over",
        refuted=0,
        detail="possible corruption: the blocks written belonged to nobody, or to another request by then",
    )


def engine_restarted(view: View) -> Match | None:
    """Requests are sent to, or wait for, an engine that was started anew under the same name."""
    now = view.now
    splits = now.splits
    replaced = replaced_at(view)
    if not replaced:
        return None
    failed = now.failures.of(splits, *UNKNOWN_PEER)
    lost = view.hung | failed | splits.shaped("failed", "failed_recomputed")
    stale = np.zeros(len(now), bool)
    for engine, (_, again) in replaced.items():
        old = (now.named == engine) | (splits.prefill_engine == engine) | (splits.decode_engine == engine)
        stale |= old & (now.splits.last_moment[:, 2] != UNKNOWN) & (_ended(view) > again)
    stale |= (now.named == UNHEARD_OF) & (now.when > min(again for _, again in replaced.values()))
    rows = lost & stale
    if not rows.any():
        return None
    names = sorted({splits.engines[engine].engine for engine in replaced})
    ids = [splits.engines[engine].engine_id[:8] for engine in replaced]
    others = lost & ~stale
    return Match(
        slug="engine-restarted",
        stage="registration_flight" if (rows & view.hung).any() else "failed_attempt",
        rows=rows,
        excess=np.where(rows & view.timed, view.excess("failed_attempt", "decode_run"), np.where(rows, view.waited, 0)),
        claims=("failed_attempt", "decode_run"),
        measured=(
            Measure("waiting for one that is gone", None, float((rows & view.hung).sum()), COUNT),
            Measure("failed", None, float((rows & failed).sum()), COUNT),
            Measure("without an answer elsewhere", None, float(others.sum()), COUNT),
        ),
        ruled_out=(
            look.lost_leg(view, rows),
            RuledOut("prefill-dies-at-handshake", "nothing started in its place", f"{', '.join(names)} did"),
            look.stale(view, rows),
        ),
        refuted_by="a request addressed to the new engine that fails the same way",
        refuted=int((lost & ~stale & (now.named >= 0) & (now.when > min(t for _, t in replaced.values()))).sum()),
        detail=f"{', '.join(names)} was replaced; the stale peer is {', '.join(ids)}",
    )


def _ended(view: View) -> np.ndarray:
    """(n,) ns up to which a request was waiting for somebody"""
    splits = view.now.splits
    still = splits.in_state(State.UNFINISHED)
    return np.where(still, splits.now, splits.last_moment[:, 2])


def replaced_at(view: View) -> dict[int, tuple[int, int]]:
    """index of an engine that was replaced -> (its last moment, the first start after it under the same name)"""
    now = view.now
    found = {}
    for index, engine in enumerate(now.splits.engines):
        if not engine.engine or not engine.engine_id or now.last_seen[index] == UNKNOWN:
            continue
        last = int(now.last_seen[index])
        heirs = [
            other
            for other, one in enumerate(now.splits.engines)
            if one.engine == engine.engine and one.engine_id != engine.engine_id and now.first_seen[other] > last
        ]
        if heirs:
            found[index] = (last, min(int(now.first_seen[heir]) for heir in heirs))
    return found


def prompt_list(view: View) -> Match | None:
    """Several prompts in one pull: they share the blocks of the first."""
    now = view.now
    splits = now.splits
    if now.settings.get("mode") == "push" or now.pushed.all():
        return None
    later = listed(now, ~now.pushed & (now.splits.decode_engine >= 0))
    rows = later.copy()
    if rows.sum() < RARE_LEAST.value:
        return None
    broken = rows & (view.hung | ~splits.complete | splits.shaped("failed", "failed_recomputed", "no_handoff"))
    shared = rows & splits.marked("shared_prefill")
    if not (broken | shared).any() and not splits.tally.ambiguous:
        return None
    return Match(
        slug="prompt-list",
        stage="read_handoff",
        rows=rows,
        excess=np.where(rows, view.waited, 0.0),
        measured=(
            Measure("prompts after the first of a list", None, float(rows.sum()), COUNT),
            Measure("without an answer, or broken", None, float(broken.sum()), COUNT),
            Measure("reading the first one's blocks", None, float(shared.sum()), COUNT),
        ),
        ruled_out=(
            RuledOut("id-mismatch", "the first prompts fail, too", f"{int((view.hung & ~later).sum())} others hang"),
        ),
        refuted_by="a list of prompts of which each read blocks of its own",
        refuted=int((rows & splits.complete & ~splits.marked("shared_prefill")).sum()),
    )


def declined_return_read(view: View) -> Match | None:
    """Prefill declined to read an earlier turn's blocks back: their lease was over, or nearly."""
    now = view.now
    rows = now.failures.of(now.splits, "read_expired", leg="prefill")
    if not rows.any():
        return None
    back = now.splits.shaped("return_read")
    return Match(
        slug="declined-return-read",
        stage="prefill_run",
        rows=rows,
        excess=np.where(rows & view.timed, np.maximum(view.excess("prefill_run"), 0), np.where(rows, view.waited, 0)),
        claims=("prefill_run", "read_handoff"),
        measured=(
            Measure("declined", None, float(rows.sum()), COUNT),
            Measure("read back", None, float((back & ~rows).sum()), COUNT),
        ),
        ruled_out=(
            RuledOut("lease-expired-before-read", "decode reads too late", "prefill reads, roles reversed"),
            look.dead_peer(view, rows),
        ),
        refuted_by="one of these that posted its read",
        refuted=int((rows & now.has("P.posted")).sum()),
        detail="expiry is counted on the engine that reads",
    )  # fmt: skip


def clock_skew(view: View) -> Match | None:
    """Moments are out of order, or lie on clocks that nothing aligned: no time across them is one."""
    splits = view.now.splits
    torn = view.now.backwards >= CLOCK_LEAST.value
    apart = splits.marked("unaligned")
    stepped = splits.marked("clock_step")
    rows = torn | apart | stepped
    if rows.sum() < max(RARE_LEAST.value, CLOCK.value * len(splits)):
        return None
    hosts = sorted({engine.host for engine in splits.engines if engine.host})
    return Match(
        slug="clock-skew",
        stage="unattributed",
        rows=rows,
        excess=np.zeros(len(splits)),
        measured=(
            Measure("requests out of order", None, float(torn.sum()), COUNT),
            Measure("by, at most", None, float(view.now.backwards.max(initial=0.0))),
            Measure("between clocks of several hosts", None, float(apart.sum()), COUNT),
            Measure("whose wall clock stepped", None, float(stepped.sum()), COUNT),
            Measure("hosts", None, float(len(hosts)), COUNT),
        ),
        ruled_out=(RuledOut("late or lost events", "counted as late or lost", f"{splits.tally.lost} lost"),),
        refuted_by="",
        detail="no stage of these requests that crosses the two clocks is told",
    )

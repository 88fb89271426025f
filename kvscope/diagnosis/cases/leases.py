"""Blocks that prefill keeps for decode, and lets go when their lease ends."""

from __future__ import annotations

import numpy as np

from kvscope.diagnosis import lookalikes as look
from kvscope.diagnosis.cases.listing import listed
from kvscope.diagnosis.cases.liveness import orphans, partners, waits_for_match
from kvscope.diagnosis.match import COUNT, Match, Measure, RuledOut
from kvscope.diagnosis.thresholds import RARE, RARE_LEAST
from kvscope.diagnosis.view import View
from kvscope.probe.vocabulary import UNKNOWN

USUAL_LEASE_S = 30.0
"""vLLM's own, where an engine did not tell."""
LIVES = 4.0
"""Leases after which blocks that nobody renews wait for nothing: renewals were seen to stretch one to three."""


def lease_ns(view: View) -> float:
    """The lease of prefill's blocks."""
    told = view.now.setting("lease_s", "prefill")
    return float(told) * 1e9 if isinstance(told, (int, float)) else USUAL_LEASE_S * 1e9


def lease_expired_before_read(view: View) -> Match | None:
    """Prefill let the blocks go, and decode read them, or registered for them, afterwards."""
    now = view.now
    expired = now.failures.first(now.splits, "lease_expired", leg="prefill")
    gone = expired != UNKNOWN
    read = gone & ~now.pushed & now.has("post_begun") & (now.t("post_begun") > expired)
    registered = gone & view.hung & now.has("D.arrived") & (now.t("D.arrived") > now.t("P.computed"))
    registered &= now.pushed & ~_queued_in_time(view, expired)
    rows = read | registered
    if not rows.any():
        return None
    hold = now.between("P.computed", "D.arrived")
    admission = np.where(rows & view.timed, now.stage("decode_admission"), 0.0)
    dispatch = np.where(rows & view.timed, now.stage("dispatch"), 0.0)
    return Match(
        slug="lease-expired-before-read",
        stage="decode_admission" if admission.sum() > dispatch.sum() else "dispatch",
        rows=rows,
        excess=np.where(
            rows & view.timed, view.excess("dispatch", "decode_admission"), np.where(rows, view.waited, 0.0)
        ),
        claims=("dispatch", "decode_admission"),
        measured=(
            Measure("reads after expiry", None, float(read.sum()), COUNT),
            Measure("registered after expiry", None, float(registered.sum()), COUNT),
            Measure("prefill's end to decode's arrival", None, float(np.nanmean(hold[rows]))),
            Measure("lease", None, lease_ns(view)),
            Measure("notified of what it let go", None, float(now.failures.count("unrecognized_notification")), COUNT),
        ),
        ruled_out=(
            RuledOut("id-mismatch", "notified of ids that prefill never had", f"{int(rows.sum())} of its own, expired"),
            RuledOut("orphaned-prefill", "no decode leg", f"{int((rows & now.has('D.arrived')).sum())} decode legs"),
        ),
        refuted_by="one of these posts begun before the lease ended",
        refuted=int((read & (now.t("post_begun") <= expired)).sum()),
        detail="possible corruption: what was read may belong to another request" if read.any() else "decode hangs",
    )


def _queued_in_time(view: View, expired: np.ndarray) -> np.ndarray:
    queued = view.now.t("D.queued")
    return np.asarray((queued != UNKNOWN) & (queued < expired))


def early_push_lease_not_renewed(view: View) -> Match | None:
    """Decode had the request in time and waited for blocks: its heartbeats named nobody, and prefill let go."""
    now = view.now
    expired = now.failures.first(now.splits, "lease_expired", leg="prefill")
    rows = (expired != UNKNOWN) & view.hung & _queued_in_time(view, expired)
    push = now.pushed | (now.settings.get("mode") == "push")
    late = ~now.has("D.reserved") | (now.t("D.reserved") > now.t("P.computed"))
    rows &= push & late
    if not rows.any():
        return None
    end = np.where(now.has("D.reserved"), now.t("D.reserved"), now.splits.now)
    waited = (end - now.t("D.queued")).astype(float)
    return Match(
        slug="early-push-lease-not-renewed",
        stage="decode_admission",
        rows=rows,
        excess=np.where(rows, view.waited, 0.0),
        claims=("decode_admission",),
        measured=(
            Measure("hang after expiry", None, float(rows.sum()), COUNT),
            Measure("waited for decode's blocks", None, float(waited[rows].mean())),
            Measure("lease", None, lease_ns(view)),
            Measure("held for want of blocks", None, float((rows & now.held).sum()), COUNT),
        ),
        ruled_out=(
            RuledOut(
                "lease-expired-before-read", "decode called after expiry", f"queued before it in {int(rows.sum())}"
            ),
            look.lost_leg(view, rows),
            look.stale(view, rows),
        ),
        refuted_by="one of these whose decode leg named prefill's request",
        refuted=int((rows & (now.splits.knew == 1)).sum()),
        detail="heartbeats named a placeholder" if (now.splits.knew[rows] != 1).all() else "",
    )


def expired_leases_not_reaped(view: View) -> Match | None:
    """Prefill keeps blocks long after their lease, with nobody who renews it."""
    now = view.now
    kept = now.has("P.computed") & ~now.has("P.released") & now.has("P.finished")
    age = (now.splits.now - now.t("P.computed")).astype(float)
    alive = (now.splits.decode_engine >= 0) & ~now.has("D.finished")
    rows = kept & (age > LIVES * lease_ns(view)) & ~alive
    rows &= ~now.failures.of(now.splits, "lease_expired")
    if rows.sum() < RARE_LEAST.value:
        return None
    blocks = np.where(now.splits.pinned_blocks == UNKNOWN, 0, now.splits.pinned_blocks)
    return Match(
        slug="expired-leases-not-reaped",
        stage="decode_admission",
        rows=rows,
        excess=np.zeros(len(now)),
        measured=(
            Measure("expired and kept", None, float(rows.sum()), COUNT),
            Measure("blocks", None, float(blocks[rows].sum()), COUNT),
            Measure("age, mean", None, float(age[rows].mean())),
            Measure("lease", None, lease_ns(view)),
        ),
        ruled_out=(RuledOut("orphaned-prefill", "let go when the lease ends", f"kept for {LIVES:g} leases or more"),),
        refuted_by="a decode leg that renews one of these",
        refuted=int((rows & alive).sum()),
    )


def orphaned_prefill(view: View) -> Match | None:
    """Prompts were computed for a decode leg that never came, and their blocks kept until the lease ended."""
    now = view.now
    splits = now.splits
    expired = now.failures.of(splits, "lease_expired", leg="prefill")
    age = (splits.now - now.t("P.computed")).astype(float)
    # Younger than a lease, its decode leg may still come.
    old = now.has("P.computed") & ~now.has("P.released") & (age > lease_ns(view))
    alone = orphans(now) & (expired | old) & ~now.has("matched")
    alone &= ~listed(now, alone)  # prompts after the first of a list have a case of their own
    mistaken = partners(now, waits_for_match(view))
    alone[mistaken[mistaken >= 0]] = False
    left = expired & splits.shaped("aborted") & now.has("D.arrived") & ~now.has("D.reserved")
    rows = alone | left
    if rows.sum() < max(RARE_LEAST.value, RARE.value * len(now)):
        return None
    blocks = np.where(splits.pinned_blocks == UNKNOWN, 0, splits.pinned_blocks)
    work = np.where(now.has("P.scheduled"), now.t("P.computed") - now.t("P.scheduled"), 0)
    return Match(
        slug="orphaned-prefill",
        stage="dispatch",
        rows=rows,
        excess=np.zeros(len(now)),
        measured=(
            Measure("computed for nobody", None, float(rows.sum()), COUNT),
            Measure("of them decode left the queue", None, float(left.sum()), COUNT),
            Measure("prefill's time, in all", None, float(work[rows].sum())),
            Measure("blocks kept", None, float(blocks[rows].sum()), COUNT),
        ),
        ruled_out=(
            RuledOut("id-mismatch", "as many decode legs that wait", f"{int(waits_for_match(view).sum())} wait"),
            RuledOut(
                "lease-expired-before-read", "a read afterwards", f"{int((rows & now.has('post_begun')).sum())} reads"
            ),
        ),
        refuted_by="a decode leg of one of these that reserved blocks",
        refuted=int((rows & now.has("D.reserved")).sum()),
        detail="the router never called decode" if not left.any() else "clients left while decode had them queued",
    )

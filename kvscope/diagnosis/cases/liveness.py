"""Requests that wait on decode for what never comes. They look alike there: only prefill's side tells them apart."""

from __future__ import annotations

import numpy as np

from kvscope.diagnosis import lookalikes as look
from kvscope.diagnosis.evidence import Evidence
from kvscope.diagnosis.match import COUNT, SHARE, Match, Measure, RuledOut
from kvscope.diagnosis.thresholds import HANGING, NEAR_FULL, RARE_LEAST
from kvscope.diagnosis.view import View
from kvscope.probe.vocabulary import REASON_CODE, UNKNOWN

POST_FAILED = (
    "push_handshake_failed", "transfer_setup_failed", "transfer_failed", "transfer_exception", "writer_exception",
    "no_blocks",
)  # fmt: skip
APART_NS = 10e9
"""Legs of one request arrive within this: a router's longest hold that anybody keeps."""


def waits_for_match(view: View) -> np.ndarray:
    """(n,) bool: hung pushes that registered and were not matched, as far as their own moments tell"""
    now = view.now
    return np.asarray(view.hung & now.has("registration_sent") & ~now.has("matched"))


def orphans(now: Evidence) -> np.ndarray:
    """(n,) bool: prefill legs that computed their prompt and of which no decode leg is known"""
    return np.asarray((now.splits.decode_engine < 0) & now.has("P.computed"))


def partners(now: Evidence, hung: np.ndarray) -> np.ndarray:
    """(n,) index of the prefill leg under another id that each hung decode leg probably belongs to, -1 none."""
    found = np.full(len(now), -1)
    free = orphans(now)
    arrived = now.t("P.arrived")
    for row in np.flatnonzero(hung & (now.splits.prefill_engine < 0)).tolist():
        alike = free & (now.splits.prompt_tokens == now.splits.prompt_tokens[row])
        alike &= np.abs(arrived - now.t("D.arrived")[row]) < APART_NS
        near = np.flatnonzero(alike)
        if len(near):
            best = int(near[np.abs(arrived[near] - now.t("D.arrived")[row]).argmin()])
            found[row], free[best] = best, False
    return found


def _hang(view: View, slug: str, stage: str, rows: np.ndarray, *looks: RuledOut, **more: object) -> Match:
    waited = np.where(rows, view.waited, 0.0)
    measured = (
        Measure("requests that wait", None, float(rows.sum()), COUNT),
        Measure("waited so far, mean", None, float(waited[rows].mean()) if rows.any() else 0.0),
        Measure("of them given up by clients", None, float((rows & view.now.has("D.finished")).sum()), COUNT),
    )
    more.setdefault("measured", measured)
    return Match(slug=slug, stage=stage, rows=rows, excess=waited, ruled_out=looks, **more)  # type: ignore[arg-type]


def registration_never_matched(view: View) -> Match | None:
    """Prefill never got its leg: the registration waits there, and decode for it."""
    now = view.now
    rows = waits_for_match(view) & ~now.has("P.arrived") & ~now.splits.marked("retried")
    halves = partners(now, rows) >= 0
    if not rows.any() or 2 * halves.sum() >= rows.sum():
        return None
    rows &= ~halves
    warned = now.failures.of(now.splits, "registration_expired", leg="decode") & rows
    return _hang(
        view, "registration-never-matched", "registration_flight", rows,
        RuledOut("id-mismatch", f"{int(rows.sum())} prefill legs that nobody claims", f"{int(halves.sum())}"),
        look.stale(view, rows), look.expired(view, rows), look.failed_post(view, rows), look.dead_peer(view, rows),
        refuted_by="a prefill leg of one of these requests", refuted=int((rows & now.has("P.arrived")).sum()),
        detail=f"decode's deadline warned for {int(warned.sum())} of them, and ended nothing",
    )  # fmt: skip


def id_mismatch(view: View) -> Match | None:
    """Both legs are there, under ids that do not go together."""
    now = view.now
    hung = waits_for_match(view) & ~now.has("P.arrived") & ~now.splits.marked("retried")
    partner = partners(now, hung)
    rows = hung & (partner >= 0)
    if rows.any() and 2 * rows.sum() >= hung.sum():
        return _hang(
            view, "id-mismatch", "registration_flight", rows,
            RuledOut("registration-never-matched", "no prefill leg of that prompt",
                          f"{int(rows.sum())} computed, of the same prompts"),
            look.stale(view, rows), look.failed_post(view, rows), look.dead_peer(view, rows),
            refuted_by="a pair of these legs under one base id", refuted=0,
            detail="prefill keeps blocks that nobody claims, decode waits under another id",
            unknown=("legs are put together by their prompts' lengths and arrivals",),
        )  # fmt: skip
    return _mismatch_in_pull(view)


def _mismatch_in_pull(view: View) -> Match | None:
    """The read worked, and prefill was thanked for blocks of a request that it does not know."""
    now = view.now
    failures = now.failures
    stranger = (failures.reason == REASON_CODE["unrecognized_notification"]) & ~failures.known
    unknown = np.unique(failures.request[stranger & (failures.request != 0)])
    computed = now.has("P.computed")
    kept = failures.of(now.splits, "lease_expired", leg="prefill") | (computed & ~now.has("P.released"))
    # A router that names one stranger each time is told of once; blocks that were read and kept tell how often.
    unthanked = kept & ~now.pushed & now.has("transferred")
    if not len(unknown) or max(len(unknown), int(unthanked.sum())) < RARE_LEAST.value:
        return None
    rows = computed & ~now.pushed & kept
    read = ~now.pushed & now.has("posted")
    rows |= np.isin(now.splits.peer_request, unknown)
    if not read.any():
        return None
    ttft = view.both(lambda one: one.splits.ttft.astype(float))
    return Match(
        slug="id-mismatch",
        stage="notice",
        rows=rows,
        excess=np.zeros(len(now)),
        measured=(
            Measure("notified of unknown ids", None, float(len(unknown)), COUNT),
            Measure("blocks kept until expiry", None, float((kept & rows).sum()), COUNT),
            Measure("TTFT", *ttft),
        ),
        ruled_out=(
            RuledOut(
                "lease-expired-before-read", "the ids are of requests whose lease ran out", "prefill never had them"
            ),
        ),
        refuted_by="a prefill leg under one of these ids",
        refuted=int((failures.known & (failures.reason == REASON_CODE["unrecognized_notification"])).sum()),
        detail="users notice nothing; prefill's blocks stay until their lease ends",
    )


def write_never_posted(view: View) -> Match | None:
    """Prefill failed at its handshake or its post, and nobody tells decode."""
    now = view.now
    failed = now.failures.of(now.splits, *POST_FAILED, leg="prefill")
    unposted = now.has("matched") & ~now.has("posted")
    rows = view.hung & now.has("registration_sent") & ~now.has("transferred") & (failed | unposted)
    if not rows.any():
        return None
    reasons = now.failures.counted()
    named = [f"{name} {reasons[name]}" for name in POST_FAILED if reasons.get(name)]
    return _hang(
        view, "write-never-posted", "prepare", rows,
        look.lost_leg(view, rows), look.expired(view, rows), look.stale(view, rows), look.dead_peer(view, rows),
        refuted_by="a post among these that ended well", refuted=int((rows & now.has("done_seen")).sum()),
        detail=", ".join(named) or "matched, and then nothing",
        measured=(
            Measure("requests that wait", None, float(rows.sum()), COUNT),
            Measure("prefill failed for", None, float((rows & failed).sum()), COUNT),
            Measure("waited so far, mean", None, float(view.waited[rows].mean())),
        ),
    )  # fmt: skip


def aborted_request_pins_blocks(view: View) -> Match | None:
    """Decode keeps the blocks of requests that were given up, until a transfer that never comes."""
    now = view.now
    splits = now.splits
    given_up = splits.shaped("aborted", "failed") & now.has("D.finished")
    pinned = given_up & now.has("D.reserved") & ~now.has("D.released")
    pinned &= splits.now - now.t("D.finished") > HANGING.value
    if pinned.sum() < RARE_LEAST.value:
        return None
    blocks = np.where(splits.reserved_blocks == UNKNOWN, 0, splits.reserved_blocks)
    room = now.setting("kv_blocks", "decode")
    share = float(blocks[pinned].sum()) / room if isinstance(room, int) and room else float("nan")
    since = int(now.t("D.finished")[pinned].min())
    victims = now.held & (now.t("D.queued") > since) & ~pinned
    if not (share >= NEAR_FULL.value or victims.any()):
        return None
    waiting = victims & ~view.timed & (view.waited > 0)  # to the end, or until their clients had enough
    excess = np.where(victims & view.timed, view.excess("decode_admission"), np.where(waiting, view.waited, 0.0))
    return Match(
        slug="aborted-request-pins-blocks",
        stage="decode_admission",
        rows=pinned | victims,
        excess=excess,
        claims=("decode_admission",),
        measured=(
            Measure("given up, blocks kept", None, float(pinned.sum()), COUNT),
            Measure("of decode's blocks", None, share, SHARE),
            Measure("held for want of blocks since", None, float(victims.sum()), COUNT),
            view.stage("decode_admission"),
        ),
        ruled_out=(
            RuledOut(
                "decode-out-of-blocks", "running requests hold the blocks", f"{int(blocks[pinned].sum())} are kept idle"
            ),
            look.stale(view, pinned),
        ),
        refuted_by="one of these requests whose blocks were released",
        refuted=int((pinned & now.has("D.released")).sum()),
        detail=f"{int(waiting.sum())} requests wait behind them for ever" if waiting.any() else "",
    )


def parked_without_handle(view: View) -> Match | None:
    """Decode reserved blocks and started nothing that would end the wait: they leak."""
    now = view.now
    begun = now.has("D.handed") | now.has("registration_sent") | now.has("post_begun") | now.has("posted")
    rows = view.hung & now.has("D.reserved") & ~begun & ~now.has("D.scheduled")
    if rows.sum() < RARE_LEAST.value:
        return None
    stage = "registration_handoff" if now.settings.get("mode") == "push" else "read_handoff"
    return _hang(
        view, "prefix-hit-or-leak", stage, rows,
        RuledOut("no-handoff", "decode computes the prompt", f"{int((rows & now.has('D.scheduled')).sum())} did"),
        look.out_of_blocks(view, float(view.waited[rows].mean())),
        refuted_by="a registration or a post of one of these", refuted=int((rows & begun).sum()),
        detail="parked with blocks reserved and without a transfer",
    )  # fmt: skip

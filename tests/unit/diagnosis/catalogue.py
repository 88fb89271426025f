"""One incident or more for each slug, and faults that are none of them."""

from __future__ import annotations

from .incidents import Incident, idle, per_mebibyte, pull, push
from .lost import (
    declined,
    kept_for_ever,
    killed_at_handshake,
    killed_when_known,
    lease_not_renewed,
    left_in_the_queue,
    listed,
    never_matched,
    never_matched_and_left,
    not_posted,
    orphans,
    parked,
    pinned,
    read_after_expiry,
    registered_after_expiry,
    retried,
    skewed,
    stale_engine,
    under_other_ids,
    unknown_to_prefill,
)
from .real import delayed, everyone, recording
from .slowed import (
    behind_early_dispatch,
    first_contact,
    gaps,
    handed_a_step_late,
    noticed_late_in_pull,
    noticed_late_in_push,
    out_of_blocks,
    queue,
    scattered,
    slow_in_crowds,
    slow_wire,
    two_ranks,
    without_handoff,
)

STARVED = {"staged": 15, "prepared": 40, "posted": 150}

INCIDENTS: dict[str, Incident] = {
    "late router": Incident(
        "late-registration", "dispatch", lambda: push({"D.arrived": 600}, everyone, True), "push-early"
    ),
    "late router, alone": Incident("late-registration", "dispatch", lambda: push({"D.arrived": 600}, everyone, True)),
    "handed late": Incident("writer-handed-blocks-a-step-late", "staging", handed_a_step_late, "push-early"),
    "handed late, alone": Incident("writer-handed-blocks-a-step-late", "staging", handed_a_step_late),
    "noticed late, push": Incident("completion-noticed-late", "poll_gap", noticed_late_in_push, "push-early"),
    "noticed late, pull": Incident("completion-noticed-late", "poll_gap", noticed_late_in_pull, "pull"),
    "slow wire, push": Incident("slow-transport", "wire", lambda: slow_wire("push-early"), "push-early"),
    "slow wire, pull": Incident("slow-transport", "wire", lambda: slow_wire("pull"), "pull"),
    "slow copy in the post": Incident("slow-transport", "submit", lambda: pull({"posted": per_mebibyte(60)}), "pull"),
    "scattered blocks": Incident("too-many-descriptors", "submit", scattered, "push-early"),
    "no CPU": Incident("writer-starved-of-cpu", "submit", lambda: push(STARVED), "push-early"),
    "crowds": Incident("transfer-contention", "wire", slow_in_crowds, "pull"),
    "a slow rank": Incident("slowest-rank", "wire", two_ranks, "push-early"),
    "out of blocks, pull": Incident("decode-out-of-blocks", "decode_admission", lambda: out_of_blocks("pull"), "pull"),
    "out of blocks, alone": Incident("decode-out-of-blocks", "decode_admission", lambda: out_of_blocks("pull")),
    "out of blocks, push": Incident(
        "decode-out-of-blocks", "decode_admission", lambda: out_of_blocks("push-early"), "push-early"
    ),
    "saturated": Incident("prefill-saturated", "prefill_queue", lambda: queue(2_000), "push-early"),
    "saturated, alone": Incident("prefill-saturated", "prefill_queue", lambda: queue(3_000, "pull")),
    "behind early dispatch": Incident(
        "prefill-queue-behind-early-dispatch", "prefill_queue", behind_early_dispatch, "push-early"
    ),
    "chunks": Incident("chunked-prefill", "prefill_gap", gaps, "push-early"),
    "no handoff": Incident("no-handoff", "decode_run", without_handoff, "pull"),
    "no handoff, alone": Incident("no-handoff", "decode_run", without_handoff),
    "first contact, handshake": Incident("slow-first-contact", "handshake", lambda: first_contact("handshake")),
    "first contact, post": Incident("slow-first-contact", "submit", lambda: first_contact("first post")),
    "first contact, notification": Incident(
        "slow-first-contact", "notice", lambda: first_contact("first notification")
    ),
    "lost prefill legs": Incident("registration-never-matched", "registration_flight", never_matched),
    "lost prefill legs, left": Incident("registration-never-matched", "registration_flight", never_matched_and_left),
    "other ids": Incident("id-mismatch", "registration_flight", under_other_ids),
    "ids unknown to prefill": Incident("id-mismatch", "notice", unknown_to_prefill),
    "not posted": Incident("write-never-posted", "prepare", not_posted),
    "pinned": Incident("aborted-request-pins-blocks", "decode_admission", pinned),
    "read after expiry": Incident("lease-expired-before-read", "dispatch", read_after_expiry),
    "registered after expiry": Incident("lease-expired-before-read", "dispatch", registered_after_expiry),
    "lease not renewed": Incident("early-push-lease-not-renewed", "decode_admission", lease_not_renewed),
    "kept for ever": Incident("expired-leases-not-reaped", "decode_admission", kept_for_ever),
    "orphans": Incident("orphaned-prefill", "dispatch", orphans),
    "left in the queue": Incident("orphaned-prefill", "dispatch", left_in_the_queue),
    "parked": Incident("prefix-hit-or-leak", "read_handoff", parked),
    "killed at the handshake": Incident("prefill-dies-at-handshake", "failed_attempt", killed_at_handshake),
    "killed when known": Incident("prefill-dies-at-handshake", "registration_flight", killed_when_known),
    "a stale engine": Incident("engine-restarted", "registration_flight", stale_engine),
    "same id again": Incident("retry-same-id", "registration_flight", retried),
    "a list of prompts": Incident("prompt-list", "read_handoff", listed),
    "a read declined": Incident("declined-return-read", "prefill_run", declined, "pull"),
    "clocks apart": Incident("clock-skew", "unattributed", lambda: skewed(5_000)),
    "a clock a little ahead": Incident("clock-skew", "unattributed", lambda: skewed(-50)),
}

UNFAMILIAR: dict[str, Incident] = {
    "decode's API server": Incident("unfamiliar", "frontend", lambda: pull({"P.taken": 300}), "pull"),
    "prefill's intake while it idles": Incident(
        "unfamiliar", "intake", lambda: idle(pull({"P.queued": 400}), "p0"), "pull"
    ),
    "a router in pull": Incident("unfamiliar", "dispatch", lambda: pull({"D.arrived": 300}), "pull"),
    "not admitted for another reason": Incident(
        "unfamiliar", "decode_admission", lambda: pull({"D.reserved": 300}), "pull"
    ),
    "a post that sleeps": Incident("unfamiliar", "submit", lambda: pull({"posted": 300}), "pull"),
    "preparing": Incident("unfamiliar", "prepare", lambda: pull({"prepared": 300}), "pull"),
    "picked up late": Incident("unfamiliar", "pickup", lambda: push({"noticed": 300}), "push-early"),
    "reported late": Incident("unfamiliar", "report", lambda: push({"ready": 300}), "push-early"),
    "queued on decode": Incident("unfamiliar", "decode_queue", lambda: push({"D.scheduled": 300}), "push-early"),
    "a slow first step": Incident("unfamiliar", "decode_run", lambda: push({"first_token": 300}), "push-early"),
    "told late": Incident("unfamiliar", "notice", lambda: push({"notified": 600}), "push-early"),
    "a registration that travels": Incident(
        "unfamiliar",
        "registration_send",
        lambda: delayed(recording("push-sequential"), {"registration_sent": 600}, everyone),
        "push-sequential",
    ),
    "reads started late": Incident("unfamiliar", "read_handoff", lambda: pull({"post_begun": 300}), "pull"),
    "a slow writer's wake-up": Incident("unfamiliar", "writer_wake", lambda: push({"staged": 900}), "push-early"),
}

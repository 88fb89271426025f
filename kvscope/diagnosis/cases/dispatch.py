"""How the two legs of a request are brought together: by the router, and in which order."""

from __future__ import annotations

import numpy as np

from kvscope.diagnosis import lookalikes as look
from kvscope.diagnosis.evidence import Evidence
from kvscope.diagnosis.match import SHARE, Match, RuledOut
from kvscope.diagnosis.thresholds import FEWEST, LATE, LATE_LEAST, MOST_OF, RARE_LEAST, UNHANDED
from kvscope.diagnosis.view import View
from kvscope.probe.vocabulary import UNKNOWN

WAY = ("D.arrived", "D.taken", "D.queued", "D.reserved", "D.handed", "registration_sent", "registration_received")
"""The way of a registration, by the moments that end its pieces."""
PIECES = (
    "dispatch", "frontend", "intake", "decode_admission", "registration_handoff", "registration_send",
    "registration_flight",
)  # fmt: skip
MEETING = ("dispatch", "frontend", "registration_handoff", "registration_send", "registration_flight",
           "staging", "writer_wake", "match")  # fmt: skip
"""Stages that end where both halves meet: one of them shrinks as another grows."""


def lateness(evidence: Evidence) -> np.ndarray:
    """(n, pieces) f8 ns of each piece of a late registration's way that lay after the blocks were staged"""
    staged = evidence.t("staged")
    begin, pieces = staged, []
    for node in WAY:
        end = np.where(evidence.has(node), np.maximum(evidence.t(node), begin), begin)
        pieces.append((end - begin).astype(float))
        begin = end
    late = evidence.late_registration
    return np.where(late[:, None], np.stack(pieces, axis=1), 0.0)


def late_by(view: View, piece: str) -> tuple[np.ndarray, float]:
    """((n,) bool late pushes, share of their lateness that one piece of the way has: of its growth, if that is known)

    Where decode is always called after prefill, or prefill's writer looks late, blocks wait for more than what changed.
    """
    rows = view.now.late_registration & view.timed
    grown = _mean_lateness(view.now)
    if view.was is not None:
        grown = np.maximum(grown - _mean_lateness(view.was), 0.0)
    total = float(grown.sum())
    return rows, float(grown[PIECES.index(piece)]) / total if total else 0.0


def _mean_lateness(evidence: Evidence) -> np.ndarray:
    """(pieces,) ns of each piece, over all timed requests"""
    timed = evidence.timed
    return lateness(timed).mean(axis=0) if len(timed) else np.zeros(len(PIECES))


def late_registration(view: View) -> Match | None:
    """Decode is called after prefill returns, so that finished blocks wait for its registration."""
    rows, share = late_by(view, "dispatch")
    if rows.sum() < FEWEST.value or share < MOST_OF.value:
        return None
    was, now = view.both(lambda one: one.waited_for_registration)
    grown = now - (was or 0.0)
    if grown < max(LATE_LEAST.value, LATE.value * view.comparison.usual_ttft):
        return None
    excess = np.where(rows, view.now.waited_for_registration - (was or 0.0), 0.0)
    early = view.timed & view.now.pushed & ~rows
    coordination = view.now.stage(*MEETING)
    return Match(
        slug="late-registration",
        stage="dispatch",
        rows=rows,
        excess=excess,
        claims=MEETING,
        measured=(
            view.stage("dispatch"),
            view.stage("registration_handoff"),
            view.stage("registration_flight"),
            view.measure("blocks waited for it", lambda one: one.waited_for_registration, "time"),
            view.measure("registered before staged", registered_early, SHARE),
        ),
        ruled_out=(
            look.out_of_blocks(view, grown),
            look.slow_transport(view),
            look.starved_writer(view, grown),
            look.handed_late(view, grown),
            look.clock(view, grown),
        ),
        refuted_by=f"a push registered before staged that met its blocks {round(grown / 2e6):,} ms late or more",
        refuted=int((early & (coordination > view.now.stage("staging", "writer_wake") + grown / 2)).sum()),
        detail=_router_part(view.now, rows),
    )


def registered_early(evidence: Evidence) -> np.ndarray:
    """(n,) f8 1 where a push's registration was sent before its blocks were staged, NaN of other requests"""
    push = evidence.splits.shaped("push")
    return np.where(push, ~evidence.late_registration, np.nan)


def _router_part(evidence: Evidence, rows: np.ndarray) -> str:
    held = evidence.splits.dispatch_parts[rows, 1]
    held = held[held != UNKNOWN]
    return f"the router held the request for {np.median(held) / 1e6:,.0f} ms of it" if len(held) else ""


def no_handoff(view: View) -> Match | None:
    """Decode computed prompts that prefill had computed: nobody asked for a transfer."""
    splits = view.now.splits
    answered = view.timed | (splits.first_token != UNKNOWN)
    silent = answered & splits.shaped("no_handoff")
    # Registered early, while prefill was not told to keep its blocks: they are gone, and decode waits.
    gone = view.hung & view.now.has("P.computed") & ~view.now.has("P.handed") & view.now.has("P.released")
    gone &= view.now.pushed & ~view.now.failures.of(splits, "lease_expired")
    rows = silent | gone
    was = view.both(lambda one: one.splits.shaped("no_handoff").astype(float))[0] or 0.0
    if rows.sum() < RARE_LEAST.value or rows.sum() < (was + UNHANDED.value) * max(1, answered.sum()):
        return None
    handed = view.timed & ~silent
    usual = float(np.median(view.now.stage("decode_run")[handed])) if handed.any() else 0.0
    if view.was is not None:
        usual = float(np.median(view.was.timed.stage("decode_run")))
    excess = np.where(silent & view.timed, np.maximum(view.now.stage("decode_run") - usual, 0.0), 0.0)
    posted = silent & view.now.has("posted")
    return Match(
        slug="no-handoff",
        stage="decode_run",
        rows=rows,
        excess=np.where(gone, view.waited, excess),
        claims=("decode_run",),
        measured=(
            view.measure("answered without handoff", lambda one: one.splits.shaped("no_handoff").astype(float), SHARE),
            view.stage("decode_run"),
            view.measure("prefix hits", lambda one: one.splits.shaped("prefix_hit").astype(float), SHARE),
        ),
        ruled_out=(
            RuledOut("prefix-hit-or-leak", "decode asks for the blocks and has them", "it asked in 0 of these"),
            RuledOut("slow-transport", "a post, and bytes", f"{int(posted.sum())} posts"),
        ),
        refuted_by="a request among these for which a transfer was posted",
        refuted=int(posted.sum()),
        detail="prefill was not told to keep its blocks" if gone.any() else "decode was not told where they are",
    )

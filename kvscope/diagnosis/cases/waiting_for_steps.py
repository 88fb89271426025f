"""What waits for the end of an engine's step: the hand-off of blocks, and the poll that finds a transfer done."""

from __future__ import annotations

import numpy as np

from kvscope.diagnosis import lookalikes as look
from kvscope.diagnosis.cases.dispatch import registered_early
from kvscope.diagnosis.evidence import Evidence
from kvscope.diagnosis.figures import ms
from kvscope.diagnosis.match import Match, RuledOut
from kvscope.diagnosis.thresholds import (
    FEWEST,
    GROWN_LEAST,
    MOST_OF,
    SAME,
    STEP,
)
from kvscope.diagnosis.view import View

BESIDE_POLL = ("read_handoff", "pickup", "report", "decode_queue", "decode_run")
PART = 0.2
"""Of three waits for a step, the poll is one."""


def within(waits: np.ndarray, limits: np.ndarray) -> float:
    """Of all the time waited, the share in waits that are within their limit."""
    return float(waits[waits <= limits].sum() / max(waits.sum(), 1.0))


def completion_noticed_late(view: View) -> Match | None:
    """The bytes are there, and the engine that polls looks once a step."""
    pushed = bool(view.now.pushed.any())
    late = ("poll_gap", "notice") if pushed else ("poll_gap",)
    # In a pull the same steps of decode hold up what comes before and after the poll.
    claims = late if pushed or view.was is None else (*late, *(name for name in BESIDE_POLL if view.grew(name) > 0))
    if not view.stands_out(*claims) or view.grew("wire") > view.grew(*late):
        return None
    if view.grew(*late) < max(GROWN_LEAST.value, PART * view.grew(*claims)):
        return None
    gap, step = view.now.timed.stage(*late), view.now.timed.poll_step()
    waited = gap > 1e6
    known = waited & ~np.isnan(step)
    if known.sum() < FEWEST.value / 2 or within(gap[known], 1.25 * step[known]) < MOST_OF.value:
        return None  # half of them, or fewer, are found at once
    was_step, now_step = view.middle(lambda one: one.poll_step())
    if was_step is not None and now_step < (1 + SAME.value) * was_step:
        return None  # nobody looks less often than before
    if not np.median(gap[known]) >= STEP.value / 2 * np.median(step[known]):
        return None
    rows = view.timed & (view.now.stage(*late) > 1e6)
    grown = view.grew(*late)
    side = "prefill" if pushed else "decode"
    return Match(
        slug="completion-noticed-late",
        stage="poll_gap" if view.grew("poll_gap") >= grown / 2 else "notice",
        rows=rows,
        excess=np.where(rows, view.excess(*claims), 0.0),
        claims=claims,
        measured=(
            view.stage("poll_gap"),
            view.stage("notice"),
            view.measure(f"{side}'s step at the poll", lambda one: one.poll_step(), "time", median=True),
            view.stage("wire"),
            view.measure("found at the first poll", first_poll, "share"),
        ),
        ruled_out=(
            look.by_stage(view, "slow-transport", grown, "wire", because=": polls find it in flight"),
            RuledOut("an unresponsive peer", "requests posted and never done", f"{int(_never_done(view).sum())}"),
            look.saturated(view, grown),
            look.starved_writer(view, grown),
        ),
        refuted_by="a poll_gap longer than two of that engine's steps",
        refuted=int((gap[known] > 2 * step[known]).sum()),
        detail=f"{side} polls once a step of {ms(float(np.median(step[known])))} ms",
        unknown=("when the last byte came: it cannot be observed between two polls, so this is inferred",),
    )


def first_poll(evidence: Evidence) -> np.ndarray:
    """(n,) f8 1 where the transfer was done when first looked at, NaN without one"""
    return np.where(evidence.has("posted"), ~evidence.has("pending_seen"), np.nan).astype(float)


def _never_done(view: View) -> np.ndarray:
    return np.asarray(view.hung & view.now.has("posted") & ~view.now.has("transferred"))


def writer_handed_blocks_late(view: View) -> Match | None:
    """Finished blocks reach prefill's writer only after its next step, with the registration there early."""
    rows = view.timed & view.now.splits.shaped("push") & ~view.now.late_registration
    if rows.sum() < FEWEST.value or not view.stands_out("staging", "writer_wake"):
        return None
    now = view.now
    staging = now.between("P.computed", "P.handed")
    step = now.steps.during(now.splits.prefill_engine, now.t("P.handed"))
    known = rows & ~np.isnan(step) & (staging > 1e6)
    if known.sum() < FEWEST.value or within(staging[known], 1.5 * step[known]) < MOST_OF.value:
        return None
    if view.grew("writer_wake") > view.grew("staging"):
        return None
    claims = ("staging", "writer_wake", "match")
    grown = view.grew(*claims)
    return Match(
        slug="writer-handed-blocks-a-step-late",
        stage="staging",
        rows=rows,
        excess=np.where(rows, view.excess(*claims), 0.0),
        claims=claims,
        measured=(
            view.stage("staging"),
            view.measure("prefill's step then", lambda one: _handing_step(one), "time", median=True),
            view.measure("registered before staged", _early, "share"),
            view.stage("poll_gap"),
        ),
        ruled_out=(
            RuledOut(
                "late-registration",
                "registrations sent after the blocks",
                f"{int((view.timed & now.late_registration).sum())} of {int(view.timed.sum())}",
            ),
            look.slow_transport(view),
            look.by_stage(view, "writer-starved-of-cpu", grown, "writer_wake", "prepare"),
        ),
        refuted_by="a hand-off that took longer than two of prefill's steps",
        refuted=int((known & (staging > 2 * step)).sum()),
        detail=f"prefill's steps take {ms(float(np.median(step[known])))} ms",
    )


def _handing_step(evidence: Evidence) -> np.ndarray:
    return evidence.steps.during(evidence.splits.prefill_engine, evidence.t("P.handed"))


def _early(evidence: Evidence) -> np.ndarray:
    return registered_early(evidence)

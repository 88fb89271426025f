"""First contact of two engines: slow, or with one that is no longer there."""

from __future__ import annotations

import numpy as np

from kvscope.diagnosis import lookalikes as look
from kvscope.diagnosis.baseline import stratum
from kvscope.diagnosis.evidence import Evidence
from kvscope.diagnosis.figures import ms
from kvscope.diagnosis.match import TIME, Match, Measure, RuledOut
from kvscope.diagnosis.thresholds import FIRST_CONTACT, HANGING, SILENT
from kvscope.diagnosis.view import View
from kvscope.probe.vocabulary import UNKNOWN

PLACES = {
    "handshake": ("handshake",),
    "first post": ("prepare", "submit", "read_handoff"),
    "first notification": ("registration_send", "registration_flight", "notice"),
}
"""Where a first contact can take its time: three places, three answers. The first registration is the first
notification: sending it returns before the way to its peer is there, so that its flight pays for that."""
CONTACT: tuple[str, ...] = tuple(name for stages in PLACES.values() for name in stages)
HANDSHAKE_FAILED = ("handshake_setup_failed", "handshake_failed", "push_reg_handshake_failed")
READ_FAILED = ("transfer_failed", "transfer_setup_failed", "transfer_exception", "notification_failed", "load_failed")


def slow_first_contact(view: View) -> Match | None:
    """The first request of a pair of engines pays for getting them acquainted."""
    now = view.now
    rows = now.first_contact & view.timed
    others = view.timed & ~now.first_contact
    if not rows.any() or not others.any():
        return None
    usual = {place: _usual(now, rows, others, stages) for place, stages in PLACES.items()}
    places = {place: np.maximum(now.stage(*stages) - usual[place], 0.0) for place, stages in PLACES.items()}
    excess = np.where(rows, sum(places.values()), 0.0)
    rows &= excess >= FIRST_CONTACT.value
    rows &= now.stage(*CONTACT) >= 0.5 * np.where(view.timed, now.splits.ttft - excess, 0)
    if not rows.any():
        return None
    cost = {place: float(values[rows].sum()) for place, values in places.items()}
    place = max(cost, key=lambda name: cost[name])
    stages = PLACES[place]
    largest = max(stages, key=lambda name: float(now.stage(name)[rows].sum()))
    return Match(
        slug="slow-first-contact",
        stage=largest,
        rows=rows,
        excess=np.where(rows, excess, 0.0),
        claims=CONTACT,
        measured=tuple(
            Measure(name, float(np.mean(usual[name][rows])), float(now.stage(*group)[rows].mean()), TIME)
            for name, group in PLACES.items()
        ),
        ruled_out=(
            look.by_stage(view, "slow-transport", float(excess[rows].mean()), "wire", because=", on every request"),
            look.starved_writer(view, float(excess[rows].mean())),
        ),
        refuted_by="a later request of the same pair that takes as long there",
        refuted=int((others & (now.stage(*stages) >= float(now.stage(*stages)[rows].min()))).sum()),
        detail=f"most of it in the {place}: {ms(cost[place] / rows.sum())} ms",
    )


def _usual(now: Evidence, rows: np.ndarray, others: np.ndarray, stages: tuple[str, ...]) -> np.ndarray:
    """(n,) f8 ns: median of the other requests, those with prompts alike where there are any"""
    values, strata = now.stage(*stages), stratum(now.prompt)
    found = np.zeros(len(now))
    for each in np.unique(strata[rows]):
        mine = strata == each
        alike = others & mine
        found[rows & mine] = np.median(values[alike if alike.any() else others])
    return found


def prefill_dies_at_handshake(view: View) -> Match | None:
    """Decode addresses a prefill engine that is no longer there."""
    now = view.now
    splits = now.splits
    shaken = now.failures.of(splits, *HANDSHAKE_FAILED, leg="decode")
    silent = prefill_silent(now)
    waits = view.hung & now.has("registration_sent") & ~now.has("registration_received") & now.has("staged") & silent
    silent |= prefill_gone(now)
    read = now.failures.of(splits, *READ_FAILED, leg="decode") & ~now.pushed & silent
    rows = (shaken & (silent | (splits.prefill_engine < 0))) | read | waits
    if not rows.any():
        return None
    failed = shaken | read
    policy = now.setting("load_failure_policy", "decode") or "not told"
    answered = rows & view.timed
    return Match(
        slug="prefill-dies-at-handshake",
        stage="failed_attempt" if failed.any() else "registration_flight",
        rows=rows,
        excess=np.where(answered, view.excess("failed_attempt", "decode_run"), np.where(rows, view.waited, 0.0)),
        claims=("failed_attempt", "decode_run", "handshake"),
        measured=(
            Measure("handshakes that failed", None, float(shaken.sum()), "count"),
            Measure("reads that failed", None, float(read.sum()), "count"),
            Measure("still waiting for it", None, float(waits.sum()), "count"),
        ),
        ruled_out=(
            look.lost_leg(view, rows),
            RuledOut(
                "write-never-posted",
                "prefill goes on stamping",
                f"silent when {int((rows & silent).sum())} of {int(rows.sum())} came",
            ),
        ),
        refuted_by="a moment of that prefill engine after it was addressed",
        refuted=int((rows & ~silent & (splits.prefill_engine >= 0)).sum()),
        detail=f"the load failure policy is {policy}"
        + ("; in push it does not help: the receive stays pending" if waits.any() else ""),
    )


def prefill_gone(now: Evidence) -> np.ndarray:
    """(n,) bool: the prefill engine keeps blocks for the request, and was not heard of again up to the end.

    A read from one that is gone fails at once, so that little time has passed when decode gives up.
    """
    engine = now.splits.prefill_engine
    heard = np.append(now.last_seen, UNKNOWN)[np.where(engine >= 0, engine, -1)]
    kept = now.has("P.computed") & ~now.has("P.released")
    return np.asarray((heard != UNKNOWN) & kept & (now.splits.now - heard > SILENT.value))


def prefill_silent(now: Evidence) -> np.ndarray:
    """(n,) bool: the prefill engine has blocks ready for the request, and has not said anything for long.

    An engine without work says nothing either; one that keeps blocks for somebody looks all the time.
    """
    splits = now.splits
    peer = np.where(splits.prefill_engine >= 0, splits.prefill_engine, now.named)
    heard = np.append(now.last_seen, UNKNOWN)[np.where(peer >= 0, peer, -1)]
    until = np.where(now.has("D.finished"), now.t("D.finished"), splits.now)
    busy = (now.has("P.computed") & ~now.has("P.released")) | now.has("registration_sent")
    return np.asarray((peer >= 0) & (heard != UNKNOWN) & busy & (until - heard > HANGING.value))

"""Incidents in which requests wait for what never comes, or blocks are lost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kvscope.core.critical_path import split
from kvscope.model.events import Events, picked, stacked
from kvscope.model.graph import NODE
from kvscope.probe.recorder import key64
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE

from .incidents import (
    DECODE_END,
    POSTING,
    Whom,
    dropped,
    end_of,
    every,
    failing,
    given_up,
    held,
    last,
    lasting,
    of_engine,
    other_start,
    pull,
    renamed,
    unmatched,
    with_value,
)
from .real import MS, delayed, keys, leg_rows, recording, row, with_rows, without

FEW = last(6)


def never_matched() -> Events:
    """The router lost the prefill legs of six requests."""
    return lasting(dropped(unmatched(recording("push-early"), FEW), FEW, "prefill"))


def never_matched_and_left() -> Events:
    """The same, and two of the clients gave up after twenty seconds."""
    return given_up(never_matched_in_time(), last(2), 20_000)


def never_matched_in_time() -> Events:
    return lasting(dropped(unmatched(recording("push-early"), last(2)), last(2), "prefill"))


def under_other_ids() -> Events:
    """Both legs are there, and each has an id of its own."""
    made = renamed(unmatched(recording("push-early"), FEW), FEW, "decode", lambda at: f"cmpl-other{at}-0-bbbbbbbb")
    return lasting(dropped(made, FEW, "prefill", "released"))


def unknown_to_prefill() -> Events:
    """A router rewrites the id that prefill gave: reads work, and prefill is thanked by a name unknown to it."""
    base = recording("pull")
    splits = split(base)
    rows, texts = base.rows.copy(), dict(base.texts)
    made = []

    for at in np.flatnonzero(FEW(splits)).tolist():
        key = key64(f"cmpl-madeup{at}-0-00000000")
        texts[key] = f"cmpl-madeup{at}-0-00000000"
        named = (rows["request"] == splits.request[at]) & (rows["peer"] != 0)
        rows["peer"][named] = key
        made.append(row(base, "failed", "prefill", "p0", int(splits.time[at, NODE["noticed"]]), key,
                        reason="unrecognized_notification"))  # fmt: skip
    found = replace(base, rows=stacked([rows, *made]), texts=texts)
    found = dropped_key(found, keys(splits, FEW(splits), "prefill"), "released")
    expired = [
        row(base, "failed", "prefill", "p0", int(splits.time[at, NODE["P.computed"]]) + 30_000 * MS,
            int(splits.peer_request[at]), reason="lease_expired")
        for at in np.flatnonzero(FEW(splits)).tolist()
    ]  # fmt: skip
    return lasting(with_rows(found, *expired))


def dropped_key(events: Events, wanted: np.ndarray, *moments: str) -> Events:
    """Without moments of legs by their keys."""
    return without(events, lambda rows: leg_rows(rows, wanted, *moments))


def not_posted() -> Events:
    """Prefill matched and could not reach decode."""
    made = dropped(recording("push-early"), FEW, "decode", *DECODE_END)
    made = dropped(made, FEW, "prefill", *POSTING, "released")
    return lasting(failing(made, FEW, "prefill", "push_handshake_failed", "matched", 5_000))


def pinned() -> Events:
    """Prefill legs are lost, clients leave after two seconds, and what comes then finds no blocks."""
    lost = every(2)
    made = given_up(dropped(unmatched(recording("push-early"), lost), lost, "prefill"), lost, 2_000)
    made = with_value(made, "blocks", lambda n: n * 10, "reserved")
    later = last(5)
    made = held(delayed(made, {"D.reserved": 9_000}, lambda s: later(s) & ~lost(s)), lambda s: later(s) & ~lost(s))
    return lasting(made)


def read_after_expiry() -> Events:
    """The router holds decode back for 18 s over a lease of 12 s; prefill's blocks are gone."""
    made = pull({"D.arrived": 18_000}, every(2))
    made = dropped(
        failing(made, every(2), "prefill", "lease_expired", "P.computed", 12_000), every(2), "prefill", "released"
    )
    return lasting(failing(made, every(2), "prefill", "unrecognized_notification", "noticed", 1))


def registered_after_expiry() -> Events:
    """The same in push: the registration stays on prefill, and decode hangs."""
    made = unmatched(delayed(recording("push-sequential"), {"D.arrived": 18_000}, FEW), FEW)
    made = dropped(made, FEW, "prefill", "released")
    return lasting(failing(made, FEW, "prefill", "lease_expired", "P.computed", 12_000))


def lease_not_renewed() -> Events:
    """Decode had no blocks for longer than prefill's lease; heartbeats named a placeholder."""
    made = held(delayed(recording("push-early"), {"D.reserved": 15_000}, FEW), FEW)
    made = dropped(unmatched(made, FEW), FEW, "prefill", "released")
    return lasting(failing(made, FEW, "prefill", "lease_expired", "P.computed", 12_000))


def kept_for_ever() -> Events:
    """Prefill's legs are over, decode's too, and nothing was released."""
    return lasting(dropped(recording("pull"), FEW, "prefill", "released"), 300)


def orphans() -> Events:
    """The router never called decode for some."""
    made = dropped(recording("pull"), every(3), "decode")
    made = dropped(made, every(3), "prefill", "released")
    return lasting(failing(made, every(3), "prefill", "lease_expired", "P.computed", 30_000))


def left_in_the_queue() -> Events:
    """Clients leave while decode has their requests queued."""
    base = recording("pull")
    splits = split(base)
    made = dropped(base, every(3), "decode", "reserved", *POSTING, "noticed", "ready", *DECODE_END)
    made = dropped(made, every(3), "prefill", "released")
    left = [
        row(base, "finished", "decode", "d0", int(splits.time[at, NODE["D.queued"]]) + 2_000 * MS,
            int(splits.request[at]), reason="abort", tokens=0)
        for at in np.flatnonzero(every(3)(splits)).tolist()
    ]  # fmt: skip
    return lasting(failing(with_rows(made, *left), every(3), "prefill", "lease_expired", "P.computed", 30_000))


def parked() -> Events:
    """Blocks are reserved and no transfer is begun."""
    return lasting(
        dropped(dropped(recording("pull"), FEW, "decode", *POSTING, *DECODE_END), FEW, "prefill", "released")
    )


def killed_at_handshake() -> Events:
    """Prefill was killed after its answer; decode's handshake times out."""
    base = recording("pull")
    splits = split(base)
    made = dropped(base, FEW, "decode", *POSTING, *DECODE_END)
    dead = int(splits.time[FEW(splits), NODE["P.computed"]].min())
    made = silent_from(dropped(made, FEW, "prefill", "released"), "p0", dead + 1, last(5))
    made = with_rows(made, *[
        row(base, "finished", "decode", "d0", int(splits.time[at, NODE["D.reserved"]]) + 5_100 * MS,
            int(splits.request[at]), reason="error", tokens=0)
        for at in np.flatnonzero(FEW(splits) & ~last(5)(splits)).tolist()
    ])  # fmt: skip
    return failing(
        made, lambda s: s.request == splits.request[FEW(splits)][0], "decode", "handshake_failed", "D.reserved", 5_000
    )


def killed_when_known() -> Events:
    """Prefill was killed when decode knew it: in push the registration is sent and the receive stays pending."""
    base = recording("push-sequential")
    splits = split(base)
    one = splits.request[FEW(splits)][0]
    made = dropped(base, lambda s: s.request == one, "decode", *DECODE_END)
    made = dropped(made, lambda s: s.request == one, "prefill", "matched", *POSTING, "released")
    after = int(splits.time[splits.request == one, NODE["staged"]][0])
    made = without(
        made, lambda rows: (rows["request"] == one) & (rows["moment"] == MOMENT_CODE["registration_received"])
    )
    return silent_from(made, "p0", after + 1, last(5), "d0")


def silent_from(events: Events, engine: str, t: int, whom: Whom, alive: str = "d0") -> Events:
    """Nothing of the engine from then on, nothing of later requests; the other engine goes on for a minute."""
    splits = split(events)
    gone = whom(splits)
    wanted = np.concatenate((keys(splits, gone, "decode"), keys(splits, gone, "prefill")))
    made = without(
        events, lambda rows: np.isin(rows["request"], wanted) | (of_engine(events, engine, rows) & (rows["t"] >= t))
    )
    told = {"waiting": 0, "running": 0, "held": 1, "free_blocks": 2000}
    return with_rows(made, row(events, "load", "engine", alive, end_of(events) + 60_000 * MS, **told))


def stale_engine() -> Events:
    """Prefill was started anew, and the router still names the one before."""
    base = never_matched()
    splits = split(base)
    when = int(splits.time[FEW(splits), NODE["D.arrived"]].min()) - 100 * MS
    return other_start(base, "p0", when)


def retried() -> Events:
    """Prefill's leg is lost, the client gives up, and the router tries again under the same id: prefill takes the first
    registration, and the retry hangs."""
    base = recording("push-early")
    splits = split(base)
    at = int(np.flatnonzero(last(3)(splits))[0])
    one = splits.request[at]
    made = dropped(base, lambda s: s.request == one, "decode", *DECODE_END)
    first = picked(made.rows, (made.rows["request"] == one) & (made.rows["leg"] == LEG_CODE["decode"])).copy()

    text = base.texts[int(one)][:-8] + "dddddddd"
    begun = int(splits.time[at, NODE["D.arrived"]])
    over = row(base, "finished", "decode", "d0", begun - 500 * MS, int(one), reason="abort", tokens=0)
    shift = 2_000 * MS
    rows = made.rows.copy()
    mine = (rows["request"] == one) & (rows["leg"] == LEG_CODE["decode"])
    rows["t"][mine] -= shift
    again = first
    again["request"] = key64(text)
    return lasting(replace(base, rows=stacked([rows, over, again]), texts=base.texts | {key64(text): text}))


def listed() -> Events:
    """Prompts after the first of a list, in pull: they read the blocks of the first."""
    base = recording("pull")
    made = renamed(base, FEW, "decode", lambda at: f"cmpl-list{at // 3}-{at % 3 + 1}-bbbbbbbb")
    splits = split(base)
    first = int(splits.peer_request[~FEW(splits)][-1])
    rows = made.rows.copy()
    new = keys(split(made), FEW(split(made)), "decode")
    rows["peer"][np.isin(rows["request"], new) & (rows["peer"] != 0)] = first
    return lasting(
        replace(
            dropped(made, FEW, "prefill"),
            rows=without(
                replace(made, rows=rows), lambda r: np.isin(r["request"], keys(splits, FEW(splits), "prefill"))
            ).rows,
        )
    )


def declined() -> Events:
    """Prefill declines to read an earlier turn back."""
    return failing(pull({"P.computed": 300}, every(3)), every(3), "prefill", "read_expired", "P.queued", 1)


def skewed(ms: float) -> Events:
    """Decode's clock is ahead of prefill's, and nobody says so."""
    base = recording("push-early")
    rows = base.rows.copy()
    rows["t"][of_engine(base, "d0", rows)] += round(ms * MS)
    return replace(base, rows=rows)

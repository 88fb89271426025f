"""Incidents in which requests are answered late."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from kvscope.core.critical_path import split
from kvscope.model.events import Events, picked, stacked
from kvscope.model.graph import NODE
from kvscope.model.splits import Splits
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE, UNKNOWN, VALUES

from .incidents import (
    POSTING,
    dropped,
    every,
    failing,
    held,
    of_engine,
    per_descriptor,
    per_mebibyte,
    push,
    seen_in_flight,
    stepping,
    together,
    with_value,
)
from .real import MS, delayed, everyone, keys, recording, row, with_rows, without


def handed_a_step_late() -> Events:
    return stepping(push({"P.handed": 600}), "p0", 620)


def noticed_late_in_push() -> Events:
    made = delayed(
        seen_in_flight(recording("push-early")), {"transferred": lambda s: np.arange(len(s)) % 2 * 600}, everyone
    )
    return stepping(_first_seen_done(made), "p0", 620)


def noticed_late_in_pull() -> Events:
    made = delayed(seen_in_flight(recording("pull")), {"transferred": lambda s: np.arange(len(s)) % 2 * 300}, everyone)
    return stepping(_first_seen_done(made), "d0", 310)


def _first_seen_done(events: Events) -> Events:
    """No poll came before the one that found it done."""
    return without(events, lambda rows: rows["moment"] == MOMENT_CODE["pending_seen"])


def slow_wire(name: str) -> Events:
    return seen_in_flight(delayed(seen_in_flight(recording(name)), {"transferred": per_mebibyte(60)}, everyone))


def slow_in_crowds() -> Events:
    grouped = together(recording("pull"), 4, 3_000)
    late = {"transferred": lambda s: np.argsort(np.argsort(s.time[:, NODE["prepared"]])) % 4 * 120.0}
    return seen_in_flight(delayed(seen_in_flight(grouped), late, everyone))


def scattered() -> Events:
    base = with_value(recording("push-early"), "descriptors", lambda n: n * 40, "prepared", "posted", "done_seen")
    return delayed(base, {"posted": per_descriptor(150)}, everyone)


def two_ranks() -> Events:
    base = recording("push-early")
    late = delayed(seen_in_flight(base), {"transferred": 400}, everyone)
    posting = np.isin(late.rows["moment"], [MOMENT_CODE[name] for name in POSTING])
    rows = late.rows.copy()
    rows["rank"][posting & (rows["leg"] == LEG_CODE["prefill"])] = 1
    quick = picked(base.rows, np.isin(base.rows["moment"], [MOMENT_CODE[name] for name in POSTING]))
    return replace(late, rows=stacked([rows, quick]))


def queue(ms: float, name: str = "push-early") -> Events:
    """Prompts wait for prefill, which is in one step after the other."""
    return stepping(delayed(recording(name), {"P.scheduled": ms}, everyone), "p0", 250)


def behind_early_dispatch() -> Events:
    made = queue(12_000)
    return failing(made, every(3), "decode", "registration_expired", "registration_sent", 10_000)


def gaps() -> Events:
    """Each prompt of 2,000 tokens in two chunks, between which steps go to others."""
    base = delayed(recording("push-early"), {"P.computed": 700}, everyone)
    splits = split(base)
    made, number = [], 1000
    for at in range(len(splits)):
        begin, end = (int(splits.time[at, NODE[node]]) for node in ("P.scheduled", "P.computed"))
        key = int(splits.peer_request[at])
        parts = np.linspace(begin, end, 6).astype(int).tolist()
        for index, (low, high) in enumerate(pairwise(parts)):
            one = row(base, "step", "engine", "p0", high, begin=low, requests=1, tokens=64)
            one["step"] = number + index
            made.append(one)
        chunk = row(base, "chunk", "prefill", "p0", parts[4] + 1000, key, tokens=500)
        chunk["step"] = number + 4
        made.append(chunk)
        base.rows["step"][(base.rows["request"] == key) & (base.rows["moment"] == MOMENT_CODE["scheduled"])] = number
        number += 10
    return with_rows(stepping(base, "p0", 1e9, 0, 0), *made)


def without_handoff() -> Events:
    """Decode's leg carries nothing of prefill: it computes the prompt itself."""
    base = recording("pull")
    splits = split(base)
    longer = delayed(base, {"first_token": lambda s: s.stage("prefill_run") / MS}, every(2))
    bare = dropped(longer, every(2), "decode", "reserved", *POSTING, "noticed", "ready")
    bare = dropped(bare, every(2), "prefill", "released")
    mine = np.isin(bare.rows["request"], keys(splits, every(2)(splits), "decode"))
    asked = mine & (bare.rows["moment"] == MOMENT_CODE["queued"])
    rows = bare.rows.copy()
    rows["peer"][asked], rows["flags"][asked] = 0, 0

    for name in ("peer_engine", "direction"):
        rows["values"][asked, VALUES["queued"].index(name)] = UNKNOWN
    return replace(bare, rows=rows)


def prefix_hits() -> Events:
    """Decode asked for the blocks and had them: nothing was sent, and its run is short."""
    return dropped(recording("pull"), every(2), "decode", "reserved", *POSTING, "noticed", "ready")


def first_contact(place: str) -> Events:
    """The first request of the pair takes 1.5 s at one of three places."""
    base = recording("push-early")
    splits = split(base)
    first = int(np.flatnonzero(splits.origin == splits.origin.min())[0])

    def whom(found: Splits) -> np.ndarray:
        return np.asarray(found.request == splits.request[first])

    if place == "handshake":
        made = delayed(base, {"prepared": 1500}, whom)
        rows = made.rows
        here = np.flatnonzero(rows["moment"] == MOMENT_CODE["handshake_ended"])
        rows["t"][here[of_engine(made, "p0", rows[here])]] += 1500 * MS
        return made
    return delayed(base, {{"first post": "posted", "first notification": "notified"}[place]: 1500}, whom)


def out_of_blocks(name: str, ms: float = 2_000) -> Events:
    return held(delayed(recording(name), {"D.reserved": ms}, everyone))

"""Small hand-written requests as events, times in ms."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from kvscope.model.events import Events
from kvscope.sources.jsonl import parse_jsonl

MS = 1_000_000
P_ID, D_ID = "cmpl-x-0-aaaaaaaa", "cmpl-x-0-bbbbbbbb"
P_LEG = {"engine": "p0", "leg": "prefill", "request": P_ID}
D_LEG = {"engine": "d0", "leg": "decode", "request": D_ID}


def moments(base: dict[str, Any], **times: float) -> list[dict[str, Any]]:
    """One object per `moment=ms`."""
    return [{"t": round(ms * MS), "moment": moment, **base} for moment, ms in times.items()]


def moment(base: dict[str, Any], name: str, ms: float, **more: Any) -> dict[str, Any]:
    """One object with more in it."""
    return {"t": round(ms * MS), "moment": name, **base, **more}


def events_of(items: Iterable[dict[str, Any]]) -> Events:
    """Objects -> events, by way of the JSON-lines source."""
    return parse_jsonl(json.dumps(item) for item in items).events


def push_early() -> list[dict[str, Any]]:
    """The first worked example: dispatched early, the registration hidden behind prefill."""
    return [
        *moments(P_LEG, arrived=0, taken=1, queued=2, scheduled=5, computed=105, handed=107, staged=108),
        moment({**P_LEG, "request": D_ID}, "registration_received", 104, looked=3 * MS),
        moment(P_LEG, "matched", 108, peer_request=D_ID),
        *moments(P_LEG, post_begun=108, prepared=109, pending_seen=118, done_seen=120, released=130),
        moment(P_LEG, "posted", 110, state="PROC"),
        *moments(D_LEG, arrived=2, taken=3, queued=3, reserved=4, handed=5, registration_sent=5),
        *moments(D_LEG, notified=121, noticed=122, ready=123, scheduled=126, first_token=136),
    ]


def push_sequential() -> list[dict[str, Any]]:
    """The second worked example: the router calls D after P answered."""
    return [
        *moments(P_LEG, arrived=0, taken=1, queued=2, scheduled=5, computed=105, handed=107, staged=108),
        *moments(D_LEG, arrived=110, taken=111, reserved=113, handed=115, registration_sent=116),
        moment(D_LEG, "queued", 112, remote_request=P_ID),
        moment({**P_LEG, "request": D_ID}, "registration_received", 119, looked=118 * MS),
        moment(P_LEG, "matched", 119, peer_request=D_ID),
        *moments(P_LEG, post_begun=119, prepared=120, pending_seen=129, done_seen=131, released=141),
        moment(P_LEG, "posted", 121, state="PROC"),
        *moments(D_LEG, notified=132, noticed=133, ready=134, scheduled=137, first_token=147),
    ]


def pull() -> list[dict[str, Any]]:
    """A read, found done at the first poll after it was in flight."""
    return [
        *moments(P_LEG, arrived=0, taken=1, queued=2, scheduled=5, computed=105, released=150),
        *moments(D_LEG, arrived=110, taken=111),
        moment(D_LEG, "queued", 112, remote_request=P_ID),
        moment(D_LEG, "reserved", 113, peer_request=P_ID, peer_engine="p0", blocks=8),
        *moments(D_LEG, post_begun=116, prepared=117, pending_seen=122, done_seen=125, noticed=126, ready=127),
        moment(D_LEG, "posted", 118, state="PROC"),
        *moments(D_LEG, scheduled=129, first_token=140),
        moment(D_LEG, "finished", 240, tokens=11, reason="length", largest_gap=20 * MS),
    ]

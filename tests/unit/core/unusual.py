"""Requests of which something went wrong, as moments: what a rule says of them has to hold live and in a recording."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from .scene import MS, moment, moments

Items = list[dict[str, Any]]
SECOND = 1000
"""ms"""
YEAR = 365 * 24 * 3600 * SECOND


def leg(side: str, request: str) -> dict[str, Any]:
    """What every moment of a leg carries; `side` is `prefill` or `decode`."""
    return {"engine": f"{side[0]}0", "leg": side, "request": request}


def failed_and_aborted(name: str, begin: float, side: str = "prefill", failed: float = 4, aborted: float = 9) -> Items:
    """One leg that waits for a read, fails and is given up, in either order."""
    mine = leg(side, f"cmpl-{name}-0-aaaaaaaa")
    return [
        *moments(mine, arrived=begin, taken=begin + 1, queued=begin + 2, reserved=begin + 3),
        moment(mine, "failed", begin + failed, reason="read_expired"),
        moment(mine, "finished", begin + aborted, reason="abort", tokens=0),
        moment(mine, "released", begin + aborted),
    ]


def pulled(name: str, begin: float, given: str = "") -> Items:
    """A pull, whole; `given`: what the router made of prefill's request id."""
    p, d = leg("prefill", f"cmpl-{name}-0-aaaaaaaa"), leg("decode", f"cmpl-{name}-0-bbbbbbbb")
    told = given or p["request"]
    at = {ms: begin + ms for ms in (0, 1, 2, 5, 105, 110, 111, 112, 113, 116, 117, 118, 122, 125, 126, 127, 129, 140)}
    return [
        *moments(p, arrived=at[0], taken=at[1], queued=at[2], scheduled=at[5], computed=at[105], released=begin + 150),
        *moments(d, arrived=at[110], taken=at[111]),
        moment(d, "queued", at[112], remote_request=told, peer_engine="p0", tokens=300),
        moment(d, "reserved", at[113], peer_request=told, peer_engine="p0", blocks=10),
        *moments(d, post_begun=at[116], prepared=at[117], pending_seen=at[122], done_seen=at[125], noticed=at[126]),
        moment(d, "posted", at[118], state="PROC"),
        *moments(d, ready=at[127], scheduled=at[129], first_token=at[140]),
        moment(d, "finished", begin + 240, tokens=11, reason="length"),
        moment(d, "released", begin + 241),
    ]


def mistaken(name: str, begin: float, given: str) -> Items:
    """A pull under an id that the router made up, which prefill is notified of and does not know."""
    stranger = moment(leg("prefill", given), "failed", begin + 126, reason="unrecognized_notification")
    return [*pulled(name, begin, given), stranger]


def refused(name: str, begin: float, cleanup: bool = True, fails: bool = True) -> Items:
    """What an engine stamps when its API server has a refused request's blocks freed, as seen on a real pair."""
    mine = leg("decode", name)
    queued = moment(mine, "queued", begin + 3, remote_request=f"cmpl-{name}-0-aaaaaaaa", peer_engine="p0", tokens=1)
    items = [
        *moments(mine, arrived=begin, taken=begin + 1, released=begin + 3.2),
        {**queued, "cleanup": True} if cleanup else queued,
        moment(mine, "finished", begin + 3.1, reason="abort", tokens=0),
    ]
    return [*items, moment(mine, "failed", begin + 5, reason="notification_failed")] if fails else items


def on_hosts(items: Items, ahead: int) -> Items:
    """Prefill on one host, decode on another whose clock is `ahead` ns further on."""
    return [
        {**item, "host": "boot-a"} if item["leg"] == "prefill" else {**item, "host": "boot-b", "t": item["t"] + ahead}
        for item in items
    ]


@st.composite
def worlds(draw: st.DrawFn, most: int = 6) -> list[Items]:
    """One request after the other, 10 s apart, so that none is late for a stream."""
    found = []
    for number in range(draw(st.integers(1, most))):
        name, begin = f"u{number}", number * 10 * SECOND
        choices = (
            failed_and_aborted(name, begin, draw(st.sampled_from(("prefill", "decode"))), draw(st.integers(4, 14))),
            pulled(name, begin),
            mistaken(name, begin, draw(st.sampled_from((f"cmpl-other{number}-0-00000000", f"cmpl-{name}-0-00000000")))),
            refused(name, begin, fails=draw(st.booleans())),
        )
        found.append(draw(st.sampled_from(choices)))
    return found


def years(most: int = 50) -> st.SearchStrategy[int]:
    """ns by which a clock may be ahead or behind."""
    return st.integers(-most * YEAR, most * YEAR).map(lambda ms: ms * MS)

"""A small world in which causes are known: delays are drawn per edge, moments follow as latest cause plus delay.

It knows nothing of how kvscope attributes time. Whether an edge is critical is found by brute force:
delay it, run the world again, and look whether the first token moved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

MS = 1_000_000
Edge = tuple[str, str]

PREFILL: tuple[Edge, ...] = (
    ("P.arrived", "origin"),
    ("P.taken", "P.arrived"),
    ("P.queued", "P.taken"),
    ("P.scheduled", "P.queued"),
    ("P.computed", "P.scheduled"),
)
RETURN_READ: tuple[Edge, ...] = (
    ("P.reserved", "P.queued"),
    ("P.post_begun", "P.reserved"),
    ("P.prepared", "P.post_begun"),
    ("P.posted", "P.prepared"),
    ("P.pending_seen", "P.posted"),
    ("P.transferred", "P.pending_seen"),
    ("P.noticed", "P.transferred"),
    ("P.ready", "P.noticed"),
    ("P.scheduled", "P.ready"),
)
STAGING: tuple[Edge, ...] = (("P.handed", "P.computed"), ("staged", "P.handed"))
FRONT: tuple[Edge, ...] = (("D.taken", "D.arrived"), ("D.queued", "D.taken"))
REGISTRATION: tuple[Edge, ...] = (
    ("D.reserved", "D.queued"),
    ("D.handed", "D.reserved"),
    ("registration_sent", "D.handed"),
)
WRITE: tuple[Edge, ...] = (
    ("prepared", "matched"),
    ("posted", "prepared"),
    ("pending_seen", "posted"),
    ("transferred", "pending_seen"),
    ("notified", "transferred"),
    ("noticed", "notified"),
    ("ready", "noticed"),
    ("D.scheduled", "ready"),
)
READ: tuple[Edge, ...] = (
    ("D.reserved", "D.queued"),
    ("post_begun", "D.reserved"),
    ("prepared", "post_begun"),
    ("posted", "prepared"),
    ("pending_seen", "posted"),
    ("transferred", "pending_seen"),
    ("noticed", "transferred"),
    ("ready", "noticed"),
    ("D.scheduled", "ready"),
)
RUN: Edge = ("first_token", "D.scheduled")
SHAPES = ("push", "pull", "return_read", "prefix_hit", "decode_only")


@dataclass(frozen=True)
class Cause:
    """One request's world."""

    number: int
    shape: str
    knew: bool
    parked: bool
    """Prefill's writer sleeps until blocks are staged, so that it reads an early registration only then."""
    in_flight: bool
    """The transfer was seen in flight; else the post returned with it done."""
    routed: bool
    start: int
    delays: tuple[tuple[Edge, int], ...]
    looked: int
    """How long before it received the registration the writer had looked, at most."""

    def delayed(self, edge: Edge, by: int) -> Cause:
        """The same world with one edge longer."""
        return replace(self, delays=tuple((e, ns + by * (e == edge)) for e, ns in self.delays))


def edges_of(shape: str, knew: bool, in_flight: bool) -> tuple[Edge, ...]:
    """The edges whose delays make the request; the match is an edge of its own."""
    dispatch: tuple[Edge, ...] = (("D.arrived", "P.computed" if knew else "origin"),)
    if shape == "decode_only":
        return (("D.arrived", "origin"), *FRONT, ("D.scheduled", "D.queued"), RUN)
    prefill = PREFILL
    if shape == "return_read":
        prefill = PREFILL[:3] + RETURN_READ + PREFILL[4:]
    if shape == "prefix_hit":
        return (*prefill, *dispatch, *FRONT, ("D.scheduled", "D.queued"), RUN)
    if shape == "push":
        flight: tuple[Edge, ...] = (("registration_received", "registration_sent"), ("matched", "both"))
        edges = (*prefill, *STAGING, *dispatch, *FRONT, *REGISTRATION, *flight, *WRITE, RUN)
    else:
        edges = (*prefill, *dispatch, *FRONT, *READ, RUN)
    if in_flight:
        return edges
    gone = ("pending_seen", "transferred")
    return tuple(e for e in edges if e[0] not in gone)


def simulate(cause: Cause) -> dict[str, int]:
    """node -> time. Nodes happen when the last of what they wait for has happened, plus the delay."""
    t = {"origin": cause.start}
    for (to, frm), ns in cause.delays:
        if to == "registration_received":
            t["looked"], t[to] = _drained(cause, t, t["registration_sent"] + ns)
        elif to == "matched":
            t[to] = max(t["staged"], t["registration_received"]) + ns
        else:
            t[to] = t.get(frm, t.get("posted", 0)) + ns
    t.setdefault("transferred", t.get("posted", 0))
    return t


def _drained(cause: Cause, t: dict[str, int], there: int) -> tuple[int, int]:
    """When the writer looked before, and when it drained a registration that was there at `there`."""
    staged = t["staged"]
    if cause.parked and t["registration_sent"] <= staged and there <= staged:
        return staged - 1 - cause.looked, staged
    looked = there - 1 - cause.looked
    # A writer that holds staged blocks polls: it has looked since, unless the registration was there.
    return (max(looked, staged + 1) if there > staged + 1 else looked), there


@st.composite
def causes(draw: st.DrawFn, number: int = 0, shapes: tuple[str, ...] = SHAPES) -> Cause:
    """A request. Delays in whole units of 10 ns, so that a delay of 1 ns breaks no tie the wrong way."""
    shape = draw(st.sampled_from(shapes))
    knew = shape in ("pull", "return_read") or (shape != "decode_only" and draw(st.booleans()))
    in_flight = draw(st.booleans())
    edges = edges_of(shape, knew, in_flight)
    size = st.integers(0, 50) | st.integers(0, 50_000)
    return Cause(
        number,
        shape,
        knew,
        draw(st.booleans()),
        in_flight,
        draw(st.booleans()),
        draw(st.integers(0, 1000)) * 10,
        tuple((edge, draw(size) * 10) for edge in edges),
        draw(st.integers(0, 100)),
    )


@st.composite
def fleets(draw: st.DrawFn, most: int = 5, shapes: tuple[str, ...] = SHAPES) -> list[Cause]:
    """Several requests."""
    return [draw(causes(number, shapes)) for number in range(draw(st.integers(1, most)))]


def items(cause: Cause) -> list[dict[str, Any]]:
    """The moments that the two engines and the router would stamp, as JSON-lines objects."""
    t = simulate(cause)
    p_id, d_id = f"cmpl-r{cause.number}-0-aaaaaaaa", f"cmpl-r{cause.number}-0-bbbbbbbb"
    prefill = {"engine": "p0", "leg": "prefill", "request": p_id}
    decode = {"engine": "d0", "leg": "decode", "request": d_id}
    poster = prefill if cause.shape == "push" else decode
    found = []
    for node, at in t.items():
        if node in ("origin", "looked", "transferred", "P.transferred"):
            continue
        base, name = poster, node
        if node.startswith(("P.", "D.")):
            base, name = (prefill if node[0] == "P" else decode), node[2:]
        elif node in ("staged", "matched"):
            base = prefill
        elif node in ("registration_sent", "notified", "noticed", "ready", "first_token"):
            base = decode
        elif node == "registration_received":
            base = {**prefill, "request": d_id}
        found.append({"t": at, "moment": name, **base, **_details(cause, node, t, p_id, d_id)})
    if cause.in_flight and "pending_seen" in t:
        found.append({"t": t["transferred"], "moment": "done_seen", **poster, "bytes": 4096})
    if "P.transferred" in t:
        found.append({"t": t["P.transferred"], "moment": "done_seen", **prefill})
    return found + _router(cause, t)


def _details(cause: Cause, node: str, t: dict[str, int], p_id: str, d_id: str) -> dict[str, Any]:
    given: dict[str, dict[str, Any]] = {
        "matched": {"peer_request": d_id, "peer_engine": "d0"},
        "registration_received": {"looked": t.get("looked")},
        "posted": {"state": "PROC" if cause.in_flight else "DONE"},
        "P.posted": {"state": "PROC"},
    }
    if node == "D.queued" and cause.shape != "decode_only":
        # An early router passes a placeholder.
        return {"remote_request": p_id if cause.knew else "placeholder", "peer_engine": "p0"}
    if node == "D.reserved" and cause.shape != "push":
        return {"peer_request": p_id, "peer_engine": "p0"}
    return given.get(node, {})


def _router(cause: Cause, t: dict[str, int]) -> list[dict[str, Any]]:
    """Only what changes no origin: the router got it when the first engine did, at the earliest."""
    if not cause.routed:
        return []
    router = {"engine": "router", "leg": "router", "request": f"r{cause.number}"}
    return [{"t": t["origin"], "moment": "received", **router}]

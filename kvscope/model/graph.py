"""The dependency graph as data: which moments a moment waits for, and what the time in between is called.

Every path to a first token visits `NODES` in this order and leaves some out, so a path is a mask over
them. The computation, the documents and the waterfall all read the two tables below.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvscope.model.stages import STAGES


@dataclass(frozen=True)
class Node:
    """A moment as the graph sees it."""

    name: str
    leg: str
    """prefill, decode, or none for what is computed from both"""
    moment: str
    """The stamped moment behind it; empty for a computed one."""


@dataclass(frozen=True)
class Edge:
    """`to` happens once `frm` has (and all its other predecessors have); the time between is `stage`."""

    to: str
    frm: str
    stage: str
    less: tuple[str, ...] = ()
    """Stages that are cut out of this one where they were seen to run inside it."""


NODES: tuple[Node, ...] = (
    Node("origin", "none", ""),
    Node("P.arrived", "prefill", "arrived"),
    Node("P.taken", "prefill", "taken"),
    Node("P.queued", "prefill", "queued"),
    # a return read: the prefill engine first reads the earlier turn's blocks from the decode engine
    Node("P.reserved", "prefill", "reserved"),
    Node("P.post_begun", "prefill", "post_begun"),
    Node("P.prepared", "prefill", "prepared"),
    Node("P.posted", "prefill", "posted"),
    Node("P.pending_seen", "prefill", "pending_seen"),
    Node("P.transferred", "none", ""),
    Node("P.noticed", "prefill", "noticed"),
    Node("P.ready", "prefill", "ready"),
    Node("P.scheduled", "prefill", "scheduled"),
    Node("P.computed", "prefill", "computed"),
    Node("P.handed", "prefill", "handed"),
    Node("staged", "prefill", "staged"),
    Node("D.arrived", "decode", "arrived"),
    Node("D.taken", "decode", "taken"),
    Node("D.queued", "decode", "queued"),
    Node("D.reserved", "decode", "reserved"),
    Node("D.handed", "decode", "handed"),
    Node("registration_sent", "decode", "registration_sent"),
    Node("registration_received", "prefill", "registration_received"),
    Node("matched", "prefill", "matched"),
    # from here on stamped by the side that posts: prefill in push, decode in pull
    Node("post_begun", "poster", "post_begun"),
    Node("prepared", "poster", "prepared"),
    Node("posted", "poster", "posted"),
    Node("pending_seen", "poster", "pending_seen"),
    Node("transferred", "none", ""),
    Node("notified", "decode", "notified"),
    Node("noticed", "decode", "noticed"),
    Node("failed", "decode", "failed"),
    Node("ready", "decode", "ready"),
    Node("D.scheduled", "decode", "scheduled"),
    Node("first_token", "decode", "first_token"),
)

EDGES: tuple[Edge, ...] = (
    Edge("P.arrived", "origin", "router"),
    Edge("P.taken", "P.arrived", "frontend"),
    Edge("P.queued", "P.taken", "intake"),
    Edge("P.scheduled", "P.queued", "prefill_queue"),
    Edge("P.reserved", "P.queued", "prefill_queue"),
    Edge("P.post_begun", "P.reserved", "read_handoff", ("handshake",)),
    Edge("P.prepared", "P.post_begun", "prepare"),
    Edge("P.posted", "P.prepared", "submit"),
    Edge("P.pending_seen", "P.posted", "wire"),
    Edge("P.transferred", "P.pending_seen", "poll_gap"),
    Edge("P.transferred", "P.posted", "poll_gap"),
    Edge("P.noticed", "P.transferred", "pickup"),
    Edge("P.ready", "P.noticed", "report"),
    Edge("P.scheduled", "P.ready", "prefill_queue"),
    Edge("P.computed", "P.scheduled", "prefill_run", ("prefill_gap", "preempted")),
    Edge("P.handed", "P.computed", "staging"),
    Edge("staged", "P.handed", "writer_wake"),
    Edge("D.arrived", "P.computed", "dispatch"),
    Edge("D.arrived", "origin", "dispatch"),
    Edge("D.taken", "D.arrived", "frontend"),
    Edge("D.queued", "D.taken", "intake"),
    Edge("D.reserved", "D.queued", "decode_admission"),
    Edge("D.handed", "D.reserved", "registration_handoff"),
    Edge("registration_sent", "D.handed", "registration_send", ("handshake",)),
    Edge("registration_received", "registration_sent", "registration_flight"),
    Edge("matched", "staged", "match"),
    Edge("matched", "registration_received", "match"),
    Edge("prepared", "matched", "prepare", ("handshake",)),
    Edge("post_begun", "D.reserved", "read_handoff", ("handshake",)),
    Edge("prepared", "post_begun", "prepare"),
    Edge("posted", "prepared", "submit"),
    Edge("pending_seen", "posted", "wire"),
    Edge("transferred", "pending_seen", "poll_gap"),
    Edge("transferred", "posted", "poll_gap"),
    Edge("notified", "transferred", "notice"),
    Edge("noticed", "notified", "pickup"),
    Edge("noticed", "transferred", "pickup"),
    Edge("ready", "noticed", "report"),
    Edge("ready", "failed", "report"),
    Edge("D.scheduled", "ready", "decode_queue"),
    Edge("D.scheduled", "D.queued", "decode_admission"),
    Edge("first_token", "D.scheduled", "decode_run", ("preempted",)),
)

# Moments that lie on no path but belong to a request's account of itself.
ASIDE: tuple[Node, ...] = (
    Node("received", "router", "received"),
    Node("prefill_sent", "router", "prefill_sent"),
    Node("prefill_returned", "router", "prefill_returned"),
    Node("decode_sent", "router", "decode_sent"),
    Node("first_byte", "router", "first_byte"),
    Node("done_seen", "poster", "done_seen"),
    Node("P.done_seen", "prefill", "done_seen"),
    Node("P.released", "prefill", "released"),
    Node("P.finished", "prefill", "finished"),
    Node("P.failed", "prefill", "failed"),
    Node("D.held", "decode", "held"),
    Node("D.preempted", "decode", "preempted"),
    Node("D.finished", "decode", "finished"),
    Node("D.released", "decode", "released"),
)

ALL_NODES = NODES + ASIDE
NODE: dict[str, int] = {node.name: index for index, node in enumerate(ALL_NODES)}
ORIGIN, FIRST_TOKEN = NODE["origin"], NODE["first_token"]
STAGE_INDEX: dict[str, int] = {stage.name: index for index, stage in enumerate(STAGES)}
UNATTRIBUTED = STAGE_INDEX["unattributed"]


def _stage_table() -> np.ndarray:
    """(to, frm) -> stage index; where no edge is, `unattributed`. Whatever came before a failure is the attempt."""
    table = np.full((len(NODES), len(NODES)), UNATTRIBUTED, np.int8)
    table[NODE["failed"], :] = STAGE_INDEX["failed_attempt"]
    for edge in EDGES:
        table[NODE[edge.to], NODE[edge.frm]] = STAGE_INDEX[edge.stage]
    return table


STAGE_OF: np.ndarray = _stage_table()
"""(to, frm) -> stage index"""


def names(*nodes: str) -> tuple[int, ...]:
    """Indices of nodes, in graph order."""
    return tuple(sorted(NODE[name] for name in nodes))


# The two branches that meet at `matched`, and the stretch each begins with.
PREFILL = tuple(range(NODE["P.arrived"], NODE["P.computed"] + 1))
RETURN_READ = tuple(range(NODE["P.reserved"], NODE["P.ready"] + 1))
STAGING = names("P.handed", "staged")
DECODE_FRONT = names("D.arrived", "D.taken", "D.queued")
REGISTRATION = names("D.reserved", "D.handed", "registration_sent", "registration_received")
WRITE = names("matched", "prepared", "posted", "pending_seen", "transferred", "notified", "noticed", "ready")
READ = names("D.reserved", "post_begun", "prepared", "posted", "pending_seen", "transferred", "noticed", "ready")
DECODE = names("D.scheduled", "first_token")
RECOMPUTE = names("failed", "ready")
BRANCHES: tuple[str, ...] = ("registration", "staging")
"""Names of what can be hidden: each is the branch that ends at `registration_received`, at `staged`."""

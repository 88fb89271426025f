"""The one table of request shapes: what each is, and the moments without which it is incomplete."""

from __future__ import annotations

from dataclasses import dataclass

from kvscope.model.graph import ALL_NODES, NODE

_PREFILL = ("P.arrived", "P.taken", "P.queued", "P.scheduled", "P.computed")
_DECODE = ("D.arrived", "D.taken", "D.queued", "D.scheduled", "first_token")
_PUSH = (
    "P.handed",
    "staged",
    "registration_received",
    "matched",
    "prepared",
    "posted",
    "D.reserved",
    "D.handed",
    "registration_sent",
    "notified",
    "noticed",
    "ready",
)
_PULL = ("D.reserved", "post_begun", "prepared", "posted", "transferred", "noticed", "ready")
_RETURN_READ = ("P.reserved", "P.post_begun", "P.prepared", "P.posted", "P.transferred", "P.noticed", "P.ready")


@dataclass(frozen=True)
class Shape:
    """A kind of request."""

    name: str
    meaning: str
    required: tuple[str, ...] = ()
    """Graph nodes; every one of them must have been seen for the request to be complete."""
    transfers: bool = False
    """KV blocks were sent from engine to engine."""
    answers: bool = True
    """It has a first token when it is over."""

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(NODE[name] for name in self.required)


SHAPES: tuple[Shape, ...] = (
    Shape("push", "prefill wrote its blocks into the decode engine", _PREFILL + _DECODE + _PUSH, transfers=True),
    Shape("pull", "the decode engine read the blocks from prefill", _PREFILL + _DECODE + _PULL, transfers=True),
    Shape(
        "return_read",
        "a later turn: prefill first read the earlier turn's blocks back from decode",
        _PREFILL + _DECODE + _PULL + _RETURN_READ,
        transfers=True,
    ),
    Shape("prefix_hit", "the decode engine had the blocks cached; nothing was sent", _PREFILL + _DECODE),
    Shape("no_handoff", "both engines computed the prompt; no transfer was asked for", _PREFILL + _DECODE),
    Shape("decode_only", "one engine did everything", _DECODE),
    Shape(
        "failed_recomputed",
        "the load failed and the decode engine computed the prompt itself",
        (*_DECODE, "failed", "ready"),
    ),
    Shape("failed", "ended by a failure before its first token", answers=False),
    Shape("aborted", "ended by its client or router before its first token", answers=False),
    Shape("prefill_only", "prefill ran and no decode leg was seen", _PREFILL, answers=False),
    Shape("undecided", "not far enough to tell", answers=False),
)

SHAPE: dict[str, Shape] = {shape.name: shape for shape in SHAPES}
SHAPE_CODE: dict[str, int] = {shape.name: code for code, shape in enumerate(SHAPES)}

# A computed node is missed by the stamp it is computed from.
_STAMP = {"transferred": "done_seen", "P.transferred": "done_seen"}


def missing_name(shape: Shape, node: int) -> str:
    """The moment's own name, with `P.` or `D.` before it where the shape requires that moment on both legs."""
    name = ALL_NODES[node].name
    moment = _STAMP.get(name) or ALL_NODES[node].moment
    alike = [other for other in shape.required if _moment(other) == moment]
    if len(alike) < 2:
        return moment
    return ("P." if name.startswith("P.") or ALL_NODES[node].leg == "prefill" else "D.") + moment


def _moment(name: str) -> str:
    return _STAMP.get(name) or ALL_NODES[NODE[name]].moment

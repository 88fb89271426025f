"""The one table of stages and their classes. Metrics, colours, columns and documents derive from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Class(StrEnum):
    """What a stage's time was spent on. The glyph tells them apart without colour."""

    FRONTEND = "frontend"
    COMPUTE_WAIT = "compute wait"
    COMPUTE_RUN = "compute run"
    COORDINATION = "coordination"
    TRANSFER = "transfer"
    UNDETERMINED = "undetermined"

    @property
    def glyph(self) -> str:
        return GLYPHS[self]

    @property
    def short(self) -> str:
        """For narrow columns, and to type."""
        return SHORT[self]


GLYPHS = {
    Class.FRONTEND: ":",
    Class.COMPUTE_WAIT: ".",
    Class.COMPUTE_RUN: "=",
    Class.COORDINATION: "#",
    Class.TRANSFER: ">",
    Class.UNDETERMINED: "?",
}

SHORT = {
    Class.FRONTEND: "front",
    Class.COMPUTE_WAIT: "wait",
    Class.COMPUTE_RUN: "run",
    Class.COORDINATION: "coord",
    Class.TRANSFER: "xfer",
    Class.UNDETERMINED: "undet",
}


@dataclass(frozen=True)
class Stage:
    """A stretch between two moments."""

    name: str
    cls: Class
    meaning: str


STAGES: tuple[Stage, ...] = (
    Stage("router", Class.FRONTEND, "from the router's receipt to the prefill engine's API server"),
    Stage("frontend", Class.FRONTEND, "API server: parsing, tokenising, handing to the engine core"),
    Stage("dispatch", Class.COORDINATION, "until the request reached the decode engine's API server"),
    Stage("intake", Class.COMPUTE_WAIT, "in the engine core's input queue, drained between steps"),
    Stage("prefill_queue", Class.COMPUTE_WAIT, "in the prefill scheduler's queue"),
    Stage("prefill_run", Class.COMPUTE_RUN, "prompt tokens being computed"),
    Stage("prefill_gap", Class.COMPUTE_WAIT, "steps between its chunks that ran without it"),
    Stage("preempted", Class.COMPUTE_WAIT, "thrown out of the batch and waiting to come back"),
    Stage("decode_admission", Class.COMPUTE_WAIT, "waiting for a slot or KV blocks on the decode engine"),
    Stage("registration_handoff", Class.COORDINATION, "reserved blocks on their way to the writer"),
    Stage("registration_send", Class.COORDINATION, "the writer preparing and sending the registration"),
    Stage("registration_flight", Class.COORDINATION, "sent, until the prefill writer drained it"),
    Stage("staging", Class.COORDINATION, "finished blocks on their way to the prefill writer"),
    Stage("writer_wake", Class.COORDINATION, "handed blocks waiting for the writer thread to run"),
    Stage("match", Class.COORDINATION, "both halves there, not yet paired"),
    Stage("handshake", Class.COORDINATION, "first contact with the peer engine"),
    Stage("read_handoff", Class.COORDINATION, "reserved blocks waiting for the forward thread to start the read"),
    Stage("prepare", Class.COORDINATION, "building descriptors and the transfer handle"),
    Stage("submit", Class.UNDETERMINED, "inside the post call; bytes can already move"),
    Stage("wire", Class.TRANSFER, "seen in flight"),
    Stage("poll_gap", Class.UNDETERMINED, "landed, or still moving: nobody looked"),
    Stage("notice", Class.COORDINATION, "bytes there, the decode writer not yet told"),
    Stage("pickup", Class.COORDINATION, "told, until the forward thread took it into account"),
    Stage("report", Class.COORDINATION, "from the forward thread to the scheduler"),
    Stage("failed_attempt", Class.COORDINATION, "a load that failed before it was recomputed"),
    Stage("decode_queue", Class.COMPUTE_WAIT, "ready, waiting to be in a batch"),
    Stage("decode_run", Class.COMPUTE_RUN, "the step that gave the first token"),
    Stage("unattributed", Class.UNDETERMINED, "no stage explains it; must stay near zero"),
)

STAGE: dict[str, Stage] = {stage.name: stage for stage in STAGES}

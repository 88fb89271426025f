"""What each moment means, where and in which mode it is stamped: one table beside the vocabulary's codes."""

from __future__ import annotations

from dataclasses import dataclass

from kvscope.probe.vocabulary import MOMENTS


@dataclass(frozen=True)
class Moment:
    """One kind of timestamp."""

    name: str
    legs: tuple[str, ...]
    """Legs that stamp it: router, prefill, decode, engine."""
    mode: str
    """push, pull or both"""
    meaning: str


_BOTH_LEGS = ("prefill", "decode")

_TABLE: tuple[Moment, ...] = (
    Moment("received", ("router",), "both", "the router got the request"),
    Moment("prefill_sent", ("router",), "both", "the router sent the prefill leg"),
    Moment("prefill_returned", ("router",), "both", "the router has prefill's answer"),
    Moment("decode_sent", ("router",), "both", "the router sent the decode leg"),
    Moment("first_byte", ("router",), "both", "the first byte of the answer passed the router"),
    Moment("arrived", _BOTH_LEGS, "both", "the API server got it, after its body was parsed"),
    Moment("taken", _BOTH_LEGS, "both", "the engine core's input thread has it"),
    Moment("queued", _BOTH_LEGS, "both", "it entered the scheduler's queue; decode's carries what the router gave"),
    Moment("scheduled", _BOTH_LEGS, "both", "in the batch of a step; on decode this is the decode start"),
    Moment("chunk", ("prefill",), "both", "further prompt tokens were scheduled"),
    Moment("computed", ("prefill",), "both", "prefill finished; the KV blocks are final"),
    Moment("handed", _BOTH_LEGS, "push", "the worker gave the writer the finished blocks, or the registration"),
    Moment("staged", ("prefill",), "push", "the writer holds the finished blocks"),
    Moment("registration_received", ("prefill",), "push", "the writer drained the registration"),
    Moment("matched", ("prefill",), "push", "registration and finished blocks met"),
    Moment("handshake_begun", ("engine",), "both", "first contact with a peer engine was submitted"),
    Moment("handshake_ended", ("engine",), "both", "first contact with a peer engine was made"),
    Moment("post_begun", _BOTH_LEGS, "both", "the transfer is being prepared"),
    Moment("prepared", _BOTH_LEGS, "both", "the transfer's handle is made"),
    Moment("posted", _BOTH_LEGS, "both", "the transfer is submitted, with the state returned"),
    Moment("pending_seen", _BOTH_LEGS, "both", "the last poll that found it in flight, stamped before the call"),
    Moment("done_seen", _BOTH_LEGS, "both", "the first poll that found it done, stamped after the call"),
    Moment("held", ("decode",), "both", "it could not be admitted, and why; once per change of reason"),
    Moment("reserved", _BOTH_LEGS, "both", "KV blocks were allocated for it (prefill: for a return read)"),
    Moment("registration_sent", ("decode",), "push", "the registration leaves, stamped before the send"),
    Moment("notified", ("decode",), "push", "the writer drained the completion notification"),
    Moment("noticed", _BOTH_LEGS, "both", "the forward thread took the completion into account"),
    Moment("ready", _BOTH_LEGS, "both", "the scheduler was told"),
    Moment("first_token", ("decode",), "both", "the first token was produced"),
    Moment("finished", _BOTH_LEGS, "both", "the request is over"),
    Moment("preempted", _BOTH_LEGS, "both", "thrown out of the batch"),
    Moment("resumed", _BOTH_LEGS, "both", "back in the batch"),
    Moment("released", _BOTH_LEGS, "both", "its KV blocks were freed"),
    Moment("failed", _BOTH_LEGS, "both", "a failure path was taken, with its reason"),
    Moment("started", ("engine",), "both", "an engine or router started, with its versions and settings"),
    Moment("step", ("engine",), "both", "one engine step; its time is the step's end"),
    Moment("load", ("engine",), "both", "waiting, running, held requests and free KV blocks, on change"),
)

MOMENT: dict[str, Moment] = {moment.name: moment for moment in _TABLE}
assert tuple(MOMENT) == MOMENTS[1:], "every moment of the vocabulary has its meaning here, in order"

"""What the added lines call. Nothing here raises, blocks or calls into the transfer library."""

from collections.abc import Callable

from kvscope.vllm.failures import (
    failed,
    lease_expired,
    load_failed,
    loads_failed,
    nothing_to_push,
    notification_unrecognized,
    read_expired,
    read_refused,
    registration_expired,
    registration_undecodable,
    registration_unsendable,
    writer_failed,
)
from kvscope.vllm.scheduler_side import (
    batch_made,
    computed,
    finished,
    held_for_blocks,
    metadata_built,
    preempted,
    queued,
    ready,
    released,
    reserved,
    scheduled,
    step_begun,
    step_ended,
    step_scheduled,
    taken,
    tokens,
)
from kvscope.vllm.started import (
    scheduler_made,
    scheduler_started,
    worker_started,
)
from kvscope.vllm.worker_side import (
    blocks_handed,
    connector_begun,
    connector_ended,
    forward_begun,
    forward_ended,
    handshake_begun,
    handshake_ended,
    handshake_measured,
    looking,
    matched,
    noticed,
    notified,
    polled,
    polling,
    post_begun,
    posted,
    prepared,
    receive_done,
    registration_handed,
    registration_received,
    registration_sent,
    staged,
    transfer_done,
)

__all__ = [
    "batch_made",
    "blocks_handed",
    "computed",
    "connector_begun",
    "connector_ended",
    "failed",
    "finished",
    "forward_begun",
    "forward_ended",
    "handshake_begun",
    "handshake_ended",
    "handshake_measured",
    "held_for_blocks",
    "lease_expired",
    "load_failed",
    "loads_failed",
    "looking",
    "matched",
    "metadata_built",
    "nothing_to_push",
    "noticed",
    "notification_unrecognized",
    "notified",
    "polled",
    "polling",
    "post_begun",
    "posted",
    "preempted",
    "prepared",
    "queued",
    "read_expired",
    "read_refused",
    "ready",
    "receive_done",
    "registration_expired",
    "registration_handed",
    "registration_received",
    "registration_sent",
    "registration_undecodable",
    "registration_unsendable",
    "released",
    "reserved",
    "scheduled",
    "scheduler_made",
    "scheduler_started",
    "staged",
    "step_begun",
    "step_ended",
    "step_scheduled",
    "taken",
    "tokens",
    "transfer_done",
    "worker_started",
    "writer_failed",
]


def __getattr__(name: str) -> Callable[..., None]:
    """A tracepoint that this version does not have: files patched on disk can outlive the kvscope that patched them."""
    if name.startswith("__"):
        raise AttributeError(name)
    return _inert


def _inert(*_args: object) -> None:
    """Does nothing."""

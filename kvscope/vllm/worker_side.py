"""Moments taken in a Worker: the forward thread, the push writer and the handshake thread."""

from __future__ import annotations

import os
import threading
from time import monotonic_ns
from typing import Any

from kvscope.probe import recorder
from kvscope.probe.recorder import record
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE, STATE_CODE, UNKNOWN
from kvscope.vllm.asked import blocks_in
from kvscope.vllm.guard import tracepoint
from kvscope.vllm.steps import StepFold

PREFILL, DECODE, ENGINE = LEG_CODE["prefill"], LEG_CODE["decode"], LEG_CODE["engine"]
HANDED, STAGED, MATCHED = (MOMENT_CODE["handed"], MOMENT_CODE["staged"], MOMENT_CODE["matched"])
REGISTRATION_SENT = MOMENT_CODE["registration_sent"]
REGISTRATION_RECEIVED = MOMENT_CODE["registration_received"]
HANDSHAKE_BEGUN, HANDSHAKE_ENDED = (MOMENT_CODE["handshake_begun"], MOMENT_CODE["handshake_ended"])
POST_BEGUN, PREPARED, POSTED = (MOMENT_CODE["post_begun"], MOMENT_CODE["prepared"], MOMENT_CODE["posted"])
PENDING_SEEN, DONE_SEEN = MOMENT_CODE["pending_seen"], MOMENT_CODE["done_seen"]
NOTIFIED, NOTICED, FAILED = (MOMENT_CODE["notified"], MOMENT_CODE["noticed"], MOMENT_CODE["failed"])

# NIXL's names and what makes ns of its units, in the order of `done_seen`'s values.
MEASURED = (("totalBytes", 1), ("descCount", 1), ("startTime", 1000), ("postDuration", 1000), ("xferDuration", 1000))

# More open transfers than any worker has; past it, memory of them is dropped rather than grown.
MAX_OPEN = 65536
# More legs than any worker has to know; past it, the oldest are dropped: not every way in which a request ends is seen.
MAX_LEGS = 16384


class Worker:
    """State of the one connector worker in this process."""

    def __init__(self) -> None:
        self.named = False  # whether it was told which engine this is: other connectors' steps pass here too
        self.legs: dict[str, int] = {}  # requests whose leg is not the engine's usual one
        self.rtt: dict[str, tuple[int, int]] = {}  # engine id -> handshake round trip, clock offset (ns)
        self.looked = UNKNOWN  # the writer's last drain and the one before it
        self.previous_look = UNKNOWN
        self.writing = ""  # P request that the writer has in hand
        self.failures: set[tuple[str, str]] = set()  # request and reason, as written lately
        self.poll_begin = 0
        self.done_at = 0
        self.pending: dict[int, int] = {}  # id(handle) -> last poll that found it in flight
        self.peer_rank: dict[int, int] = {}  # id(handle)
        self.step = 0
        self.step_begin = 0
        self.forward_begin = 0
        self.forward_end = 0
        self.batch = (0, 0)  # requests, tokens
        self.last = False  # whether no step need follow this one
        self.fold = StepFold()


worker = Worker()
returned = threading.local()  # what the transfer call of this thread returned last


def forget() -> None:
    """Start anew: in a forked child, and in tests."""
    global worker
    worker = Worker()


os.register_at_fork(after_in_child=forget)


def state() -> Worker:
    """The state of this process's worker, as it is now."""
    return worker


def is_push(connector: Any) -> bool:
    """Whether this connector writes (P posts) rather than reads (D posts)."""
    return bool(connector._TRANSFER_MODE == "push")


def reader_leg(request_id: str) -> int:
    """Pull: whoever reads is the decode leg, but for the return read of a later turn."""
    return worker.legs.get(request_id, DECODE)


def _poster_leg(connector: Any, request_id: str) -> int:
    return PREFILL if connector._TRANSFER_MODE == "push" else worker.legs.get(request_id, DECODE)


def observe_transfers(connector: Any) -> None:
    """Remember what vLLM's own transfer call returns: an added line cannot see a discarded result.

    The call itself is passed through unchanged; kvscope makes none of its own.
    """
    original = connector.nixl_wrapper.transfer

    def transfer(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        returned.state = result
        return result

    connector.nixl_wrapper.transfer = transfer


# --- steps ---------------------------------------------------------------------------------------


@tracepoint
def connector_begun(scheduler_output: Any) -> None:
    """The forward thread enters the connector for a step."""
    worker.step_begin = worker.forward_begin = worker.forward_end = monotonic_ns()
    meta = _ours(scheduler_output.kv_connector_metadata)
    worker.step, worker.last = getattr(meta, "kvs_step", 0), getattr(meta, "kvs_last", False)
    worker.batch = (len(scheduler_output.num_scheduled_tokens), scheduler_output.total_num_scheduled_tokens)
    legs = getattr(meta, "kvs_legs", None)
    if legs:
        worker.legs.update(legs)
        while len(worker.legs) > MAX_LEGS:
            del worker.legs[next(iter(worker.legs))]


def _ours(metadata: Any) -> Any:
    """The connector metadata that was told the step: where connectors are combined, theirs lies within."""
    for one in getattr(metadata, "metadata", ()):
        if hasattr(one, "kvs_step"):
            return one
    return metadata


@tracepoint
def forward_begun() -> None:
    """The connector is done for now; the forward begins."""
    worker.forward_begin = worker.forward_end = monotonic_ns()


@tracepoint
def forward_ended() -> None:
    """The forward was launched (on CPU: run); back in the connector."""
    worker.forward_end = monotonic_ns()


@tracepoint
def connector_ended(output: Any) -> None:
    """The connector's work for this step is over. `output`: what it reports to the scheduler."""
    if not worker.named:
        return
    now = monotonic_ns()
    connector_ns = worker.forward_begin - worker.step_begin + now - worker.forward_end
    worker.fold.add(worker.step, worker.step_begin, now, *worker.batch, connector_ns)
    if worker.last or _reports(output):
        worker.fold.flush()


def _reports(output: Any) -> bool:
    """Whether a transfer ended, well or not: it may be what the engine was stepping for."""
    return bool(output.finished_recving or output.finished_sending or output.failed_recving or output.invalid_block_ids)


# --- push: registration, match -------------------------------------------------------------------


@tracepoint
def registration_handed(connector: Any, request_id: Any, registration: Any, metadata: Any) -> None:
    """D's forward thread gives a registration to the writer."""
    record(
        HANDED,
        DECODE,
        request_id,
        0,
        blocks_in(registration["local_block_ids"]),
        recorder.text(registration["remote_engine_id"]),
        rank=connector.tp_rank,
        step=getattr(metadata, "kvs_step", 0),
    )


@tracepoint
def blocks_handed(connector: Any, request_id: Any, block_ids: Any, metadata: Any) -> None:
    """P's forward thread gives finished blocks to the writer."""
    step = getattr(metadata, "kvs_step", 0)
    record(HANDED, PREFILL, request_id, 0, blocks_in(block_ids), rank=connector.tp_rank, step=step)


@tracepoint
def staged(connector: Any, request_id: Any, block_ids: Any) -> None:
    """P's writer holds the finished blocks."""
    worker.writing = request_id
    record(STAGED, PREFILL, request_id, 0, blocks_in(block_ids), rank=connector.tp_rank)


@tracepoint
def registration_sent(connector: Any, request_id: Any, registration: Any, message: Any, rank: Any) -> None:
    """About to send the registration to one rank of P."""
    record(
        REGISTRATION_SENT,
        DECODE,
        request_id,
        0,
        len(message),
        recorder.text(registration["remote_engine_id"]),
        rank=connector.tp_rank,
        peer_rank=rank[1],
    )


@tracepoint
def looking(_connector: Any) -> None:
    """P's writer is about to drain its notifications: whatever it had in hand is dealt with."""
    worker.writing = ""
    worker.previous_look, worker.looked = worker.looked, monotonic_ns()


@tracepoint
def registration_received(connector: Any, request_id: Any, registration: Any) -> None:
    """P's writer drained a registration. The request id is D's; `looked` is the drain before this one."""
    worker.writing = ""
    record(
        REGISTRATION_RECEIVED,
        PREFILL,
        request_id,
        0,
        worker.previous_look,
        blocks_in(registration["local_block_ids"]),
        recorder.text(registration["decode_engine_id"]),
        rank=connector.tp_rank,
    )


@tracepoint
def matched(connector: Any, request_id: Any, registration: Any) -> None:
    """Registration and finished blocks met: both request ids."""
    worker.writing = request_id
    record(
        MATCHED,
        PREFILL,
        request_id,
        0,
        blocks_in(registration["local_block_ids"]),
        recorder.text(registration["decode_engine_id"]),
        peer=registration["request_id"],
        rank=connector.tp_rank,
    )


# --- handshake -----------------------------------------------------------------------------------


@tracepoint
def handshake_begun(connector: Any, engine_id: Any) -> None:
    """A handshake with a peer engine is about to be submitted."""
    record(HANDSHAKE_BEGUN, ENGINE, None, 0, recorder.text(engine_id), rank=connector.tp_rank)


@tracepoint
def handshake_measured(_connector: Any, engine_id: Any, rtt: Any, offset: Any) -> None:
    """vLLM's own round trip and clock offset (seconds), kept for `handshake_ended`."""
    worker.rtt[engine_id] = (int(rtt * 1e9), int(offset * 1e9))


@tracepoint
def handshake_ended(connector: Any, engine_id: Any) -> None:
    """The handshake is over; without a round trip it failed."""
    rtt, offset = worker.rtt.pop(engine_id, (UNKNOWN, UNKNOWN))
    record(HANDSHAKE_ENDED, ENGINE, None, 0, recorder.text(engine_id), rtt, offset, rank=connector.tp_rank)


# --- transfer ------------------------------------------------------------------------------------


@tracepoint
def post_begun(connector: Any, request_id: Any, engine_id: Any, blocks: Any) -> None:
    """A transfer is being prepared. Pull hands its request metadata; one without blocks only notifies."""
    if connector._TRANSFER_MODE == "push":
        worker.writing = request_id  # it may have waited for a handshake, and others have been in hand since
    count = blocks_in(getattr(blocks, "local_block_ids", blocks))
    if count:
        leg = _poster_leg(connector, request_id)
        record(POST_BEGUN, leg, request_id, 0, count, recorder.text(engine_id), rank=getattr(connector, "tp_rank", 0))


@tracepoint
def prepared(connector: Any, request_id: Any, remote_rank: Any, descriptors: Any, _handle: Any) -> None:
    """The transfer's handle is made."""
    returned.state = None
    record(
        PREPARED,
        _poster_leg(connector, request_id),
        request_id,
        0,
        len(descriptors),
        rank=connector.tp_rank,
        peer_rank=remote_rank,
    )


@tracepoint
def posted(connector: Any, request_id: Any, remote_rank: Any, descriptors: Any, handle: Any) -> None:
    """The transfer is submitted, with the state that the call returned."""
    now = monotonic_ns()
    worker.pending.pop(id(handle), None)  # of a transfer whose end was not seen, and whose handle's place is used again
    if len(worker.peer_rank) < MAX_OPEN:
        worker.peer_rank[id(handle)] = remote_rank
    worker.writing = ""
    record(
        POSTED,
        _poster_leg(connector, request_id),
        request_id,
        now,
        len(descriptors),
        state=STATE_CODE.get(getattr(returned, "state", None) or "none", 0),
        rank=connector.tp_rank,
        peer_rank=remote_rank,
    )


@tracepoint
def polling(_connector: Any) -> None:
    """About to ask for a transfer's state."""
    worker.poll_begin = monotonic_ns()


@tracepoint
def polled(_connector: Any, _request_id: Any, handle: Any, state: Any) -> None:
    """The answer. Polls that find it in flight are kept, not written: only the last one matters."""
    if state == "PROC":
        if len(worker.pending) < MAX_OPEN:
            worker.pending[id(handle)] = worker.poll_begin
        return
    worker.done_at = monotonic_ns()
    if state != "DONE":
        worker.pending.pop(id(handle), None)
        worker.peer_rank.pop(id(handle), None)


def _measured(telemetry: Any) -> tuple[int, ...]:
    """What NIXL says of a transfer, as `done_seen` has it. Whatever a release of it lacks, the moment itself stays."""
    told = []
    for name, scale in MEASURED:
        try:
            told.append(int(getattr(telemetry, name)) * scale)
        except (AttributeError, KeyError, TypeError, ValueError):
            told.append(UNKNOWN)
    return tuple(told)


@tracepoint
def transfer_done(connector: Any, request_id: Any, handle: Any, telemetry: Any) -> None:
    """A transfer was found done. NIXL's times are microseconds of the same clock, written in ns."""
    leg = _poster_leg(connector, request_id)
    pending = worker.pending.pop(id(handle), 0)
    peer_rank = worker.peer_rank.pop(id(handle), 0)
    if pending:
        record(PENDING_SEEN, leg, request_id, pending, rank=connector.tp_rank, peer_rank=peer_rank)
    record(
        DONE_SEEN,
        leg,
        request_id,
        worker.done_at,
        *_measured(telemetry),
        rank=connector.tp_rank,
        peer_rank=peer_rank,
        step=worker.step,
    )


@tracepoint
def notified(connector: Any, notification: Any) -> None:
    """D's writer drained a completion notification (heartbeats pass the same way)."""
    if notification.startswith(b"HB:"):
        return
    request_id, _, _ = notification.decode().rpartition(":")
    if request_id not in connector._reqs_to_send and request_id not in connector._reqs_to_process:
        record(NOTIFIED, DECODE, request_id, rank=connector.tp_rank)


@tracepoint
def noticed(connector: Any, request_id: Any) -> None:
    """Push: D's forward thread took the completion into account."""
    record(NOTICED, DECODE, request_id, rank=connector.tp_rank, step=worker.step)


@tracepoint
def receive_done(connector: Any, request_id: Any) -> None:
    """Pull: the forward thread takes a finished read into account (push did so on notification)."""
    if not is_push(connector):
        record(NOTICED, reader_leg(request_id), request_id, rank=connector.tp_rank, step=worker.step)
        worker.legs.pop(request_id, None)

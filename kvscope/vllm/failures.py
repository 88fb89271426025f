"""Failures, on every path of the connectors that can lose a request."""

from __future__ import annotations

from typing import Any

from kvscope.probe import recorder
from kvscope.probe.recorder import record
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE, REASON_CODE, UNKNOWN
from kvscope.vllm import scheduler_side
from kvscope.vllm.guard import tracepoint
from kvscope.vllm.worker_side import is_push, reader_leg, state

PREFILL, DECODE, ENGINE = LEG_CODE["prefill"], LEG_CODE["decode"], LEG_CODE["engine"]
FAILED = MOMENT_CODE["failed"]
MAX_FAILURES = 1024  # remembered at once


def _fail(connector: Any, leg: int, request_id: str | None, reason: str, peer: Any = None) -> None:
    if request_id is not None and _told_before(request_id, reason):
        return
    code = REASON_CODE.get(reason, 0)
    record(
        FAILED,
        leg,
        request_id,
        0,
        recorder.text(peer) if peer else UNKNOWN,
        UNKNOWN if code else recorder.text(reason),  # a release's own name for it: kept as text
        rank=getattr(connector, "tp_rank", 0),
        step=state().step,
        reason=code,
    )


def _told_before(request_id: str, reason: str) -> bool:
    """Whether this was written lately: a transfer that cannot be released fails anew at every step."""
    told, failure = state().failures, (request_id, reason)
    if failure in told:
        return True
    if len(told) >= MAX_FAILURES:
        told.clear()
    told.add(failure)
    return False


@tracepoint
def failed(connector: Any, request_id: Any, failure_type: Any, context: Any) -> None:
    """A failure on one of the paths that vLLM logs."""
    if request_id is None:
        leg = ENGINE
    elif not is_push(connector):
        leg = reader_leg(request_id)
    elif failure_type.startswith("push_reg") or request_id in connector._recving_metadata:
        leg = DECODE
    else:
        leg = PREFILL
    _fail(
        connector,
        leg,
        request_id,
        failure_type,
        context.get("remote_engine_id") or context.get("dst_engine_id"),
    )


@tracepoint
def writer_failed(connector: Any) -> None:
    """An exception in the writer loop: what it had in hand is lost, and its registration with it."""
    request_id, state().writing = state().writing, ""
    _fail(
        connector,
        PREFILL if request_id else ENGINE,
        request_id or None,
        "writer_exception",
    )


@tracepoint
def registration_undecodable(connector: Any) -> None:
    """A registration that cannot be read: nobody knows whose."""
    _fail(connector, ENGINE, None, "registration_undecodable")


@tracepoint
def registration_unsendable(connector: Any, request_id: Any) -> None:
    """No agent of P to send the registration to."""
    _fail(connector, DECODE, request_id, "registration_no_agents")


@tracepoint
def nothing_to_push(connector: Any, request_id: Any) -> None:
    """P has an empty block list: no write, and D is never told."""
    _fail(connector, PREFILL, request_id, "no_blocks")


@tracepoint
def notification_unrecognized(connector: Any, request_id: Any) -> None:
    """A completion for a request that is not (or no longer) known here."""
    _fail(
        connector,
        DECODE if is_push(connector) else PREFILL,
        request_id,
        "unrecognized_notification",
    )


@tracepoint
def lease_expired(connector: Any, request_id: Any) -> None:
    """Blocks kept for the peer were given up."""
    _fail(connector, state().legs.pop(request_id, PREFILL), request_id, "lease_expired")


@tracepoint
def read_refused(connector: Any, request_id: Any, engine_id: Any) -> None:
    """A read from a peer that is known to be invalid."""
    _fail(connector, reader_leg(request_id), request_id, "invalid_engine", engine_id)


@tracepoint
def read_expired(connector: Any, request_id: Any, engine_id: Any) -> None:
    """A return read declined because the peer's blocks have (nearly) expired."""
    _fail(connector, reader_leg(request_id), request_id, "read_expired", engine_id)


@tracepoint
def load_failed(_scheduler: Any, request_id: Any) -> None:
    """A load failed, as the worker reported it to the scheduler by request."""
    _fail_in_scheduler(request_id, scheduler_side.known_leg(request_id), "load_failed")


@tracepoint
def loads_failed(_scheduler: Any, asynchronous: Any, synchronous: Any) -> None:
    """Loads failed, as the worker reported them to the scheduler by block."""
    for request_id in asynchronous | synchronous:
        _fail_in_scheduler(request_id, scheduler_side.known_leg(request_id), "load_failed")


@tracepoint
def registration_expired(_connector: Any, request_id: Any) -> None:
    """D's watchdog gave up on a registration. vLLM only warns: the request stays parked."""
    _fail_in_scheduler(request_id, DECODE, "registration_expired")


def _fail_in_scheduler(request_id: str, leg: int, reason: str) -> None:
    record(FAILED, leg, request_id, step=scheduler_side.state().step, reason=REASON_CODE[reason])

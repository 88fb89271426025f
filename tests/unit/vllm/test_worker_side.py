"""What the worker's tracepoints remember, for how long, and whom they hold to blame."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kvscope.vllm import failures, worker_side

from .conftest import Trace

PUSH = SimpleNamespace(_TRANSFER_MODE="push", tp_rank=0)
PULL = SimpleNamespace(_TRANSFER_MODE="pull", tp_rank=0)
TELEMETRY = SimpleNamespace(totalBytes=1, descCount=1, startTime=1, postDuration=1, xferDuration=1)


def output(metadata: Any) -> SimpleNamespace:
    """A scheduler's output with this connector metadata."""
    return SimpleNamespace(kv_connector_metadata=metadata, num_scheduled_tokens={}, total_num_scheduled_tokens=0)


def step(metadata: Any, **reported: set[str]) -> None:
    """A step without a forward, and what the connector reports in it."""
    nothing: dict[str, set[str]] = {"finished_sending": set(), "finished_recving": set(), "failed_recving": set()}
    worker_side.connector_begun(output(metadata))
    worker_side.forward_begun()
    worker_side.forward_ended()
    worker_side.connector_ended(SimpleNamespace(**{**nothing, "invalid_block_ids": set(), **reported}))


def registration(name: str) -> dict[str, Any]:
    """What D sends to P of a request."""
    return {"request_id": name, "decode_engine_id": "engine-d", "local_block_ids": [[1]]}


def test_a_poll_of_a_transfer_that_never_ended_is_not_the_next_ones(trace: Trace) -> None:
    handle = 1 << 40
    worker_side.posted(PULL, "lost", 0, [1], handle)
    worker_side.polling(PULL)
    worker_side.polled(PULL, "lost", handle, "PROC")
    worker_side.posted(PULL, "next", 0, [1], handle)
    worker_side.polling(PULL)
    worker_side.polled(PULL, "next", handle, "DONE")
    worker_side.transfer_done(PULL, "next", handle, TELEMETRY)
    assert (len(trace.moments("done_seen")), trace.moments("pending_seen")) == (1, [])


def test_requests_that_are_never_seen_to_end_do_not_add_up() -> None:
    worker_side.forget()
    for number in range(worker_side.MAX_LEGS + 10):
        worker_side.connector_begun(output(SimpleNamespace(kvs_step=number, kvs_legs={f"r{number}": 2})))
    legs = list(worker_side.state().legs)
    assert (len(legs), legs[-1]) == (worker_side.MAX_LEGS, f"r{worker_side.MAX_LEGS + 9}")


def test_the_step_is_found_in_the_metadata_of_combined_connectors() -> None:
    worker_side.forget()
    told = SimpleNamespace(kvs_step=7, kvs_legs={"r": worker_side.PREFILL})
    worker_side.connector_begun(output(SimpleNamespace(metadata=(SimpleNamespace(), told))))
    assert (worker_side.state().step, worker_side.reader_leg("r")) == (7, worker_side.PREFILL)


def blamed(trace: Trace) -> list[str]:
    """The legs of the failures so far: the engine's where nobody is to blame."""
    return [moment.leg for moment in trace.moments("failed")]


def test_a_failed_drain_is_not_the_fault_of_who_was_staged_before(trace: Trace) -> None:
    worker_side.staged(PUSH, "p", [[1]])
    worker_side.looking(PUSH)
    failures.writer_failed(PUSH)
    assert blamed(trace) == ["engine"]


def test_an_unmatched_registration_is_not_the_fault_of_the_match_before(trace: Trace) -> None:
    worker_side.matched(PUSH, "p", registration("d"))
    worker_side.registration_received(PUSH, "other", registration("other"))
    failures.writer_failed(PUSH)
    assert blamed(trace) == ["engine"]


def test_a_push_that_waited_for_a_handshake_is_in_hand_again(trace: Trace) -> None:
    worker_side.matched(PUSH, "p", registration("d"))
    worker_side.looking(PUSH)
    worker_side.post_begun(PUSH, "p", "engine-d", [[1]])
    failures.writer_failed(PUSH)
    assert blamed(trace) == ["prefill"]


def test_a_transfer_that_fails_anew_at_every_step_is_told_once(trace: Trace) -> None:
    for _ in range(3):
        failures.failed(PULL, "r", "transfer_failed", {})
        failures.failed(PULL, "r", "transfer_release_failed", {})
        failures.failed(PULL, None, "handshake_setup_failed", {})
    reasons = [moment.reason for moment in trace.moments("failed")]
    assert (reasons[:3], reasons[3:]) == (
        ["transfer_failed", "transfer_release_failed", "handshake_setup_failed"],
        ["handshake_setup_failed"] * 2,
    )


def folded(trace: Trace) -> list[int]:
    """How many steps each record of a step stands for."""
    return [moment.values[-1] for moment in trace.moments("step")]


@pytest.mark.parametrize("kind", ["finished_sending", "finished_recving", "failed_recving", "invalid_block_ids"])
def test_steps_are_written_when_a_transfer_ends_since_no_other_need_follow(trace: Trace, kind: str) -> None:
    worker_side.state().named = True
    for _ in range(2):
        step(SimpleNamespace(kvs_step=1))
    assert folded(trace) == []
    step(SimpleNamespace(kvs_step=2), **{kind: {"r"}})
    assert folded(trace) == [3]


def test_and_when_the_scheduler_has_nothing_left(trace: Trace) -> None:
    worker_side.state().named = True
    step(SimpleNamespace(kvs_step=1))
    step(SimpleNamespace(kvs_step=2, kvs_last=True))
    step(SimpleNamespace(kvs_step=3))
    assert folded(trace) == [2]


def test_steps_of_other_connectors_are_not_ours_to_write(trace: Trace) -> None:
    step(SimpleNamespace(kvs_last=True))
    assert folded(trace) == []

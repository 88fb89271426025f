"""What the scheduler's tracepoints remember, for how long, and what they make of it."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

from kvscope.vllm import scheduler_side

from .conftest import Trace

PUSH = SimpleNamespace(_TRANSFER_MODE="push")


def request(name: str, **params: Any) -> SimpleNamespace:
    """A request as the scheduler holds it."""
    return SimpleNamespace(request_id=name, kv_transfer_params=params, num_prompt_tokens=8, num_computed_tokens=8)


def scheduler(*requests: SimpleNamespace) -> SimpleNamespace:
    """A scheduler at its first step, with these requests in it."""
    pool = SimpleNamespace(get_num_free_blocks=lambda: 100)
    return SimpleNamespace(
        current_step=1,
        waiting=[],
        running=[],
        kv_holding_waiting=[],
        kv_cache_manager=SimpleNamespace(block_pool=pool),
        requests={one.request_id: one for one in requests},
    )


def scheduled_step(engine: SimpleNamespace, number: int) -> SimpleNamespace:
    """The output of a step that was scheduled."""
    engine.current_step = number
    output = SimpleNamespace(num_scheduled_tokens={"a": 1}, total_num_scheduled_tokens=1)
    scheduler_side.step_begun(engine)
    scheduler_side.step_scheduled(engine, output)
    return output


def test_a_step_that_never_ended_does_not_number_the_first_tokens_after_it(trace: Trace) -> None:
    one, another = request("a"), request("b")
    engine = scheduler(one, another)
    scheduler_side.queued(engine, one)
    scheduler_side.queued(engine, another)
    lost = scheduled_step(engine, 1)
    scheduler_side.step_ended(engine, scheduled_step(engine, 2))
    last = scheduled_step(engine, 3)
    scheduler_side.tokens(engine, another, [5])
    assert [moment.step for moment in trace.moments("first_token")] == [3]
    assert lost is not last


def test_steps_in_flight_are_told_apart(trace: Trace) -> None:
    one, another = request("a"), request("b")
    engine = scheduler(one, another)
    scheduler_side.queued(engine, one)
    scheduler_side.queued(engine, another)
    first, second = scheduled_step(engine, 1), scheduled_step(engine, 2)
    scheduler_side.tokens(engine, one, [5])
    scheduler_side.step_ended(engine, first)
    scheduler_side.tokens(engine, another, [5])
    scheduler_side.step_ended(engine, second)
    assert [moment.step for moment in trace.moments("first_token")] == [1, 2]


def test_requests_that_ended_while_the_probe_was_off_are_forgotten(trace: Trace) -> None:
    kept = request("kept")
    engine = scheduler(kept)
    scheduler_side.queued(engine, kept)
    for number in range(scheduler_side.STRAYS + 1):
        scheduler_side.queued(engine, request(f"gone-{number}"))
    scheduler_side.step_ended(engine, scheduled_step(engine, 1))
    assert list(scheduler_side.engine.seen) == ["kept"]


def test_parameters_that_are_no_text_cost_nothing_but_themselves(trace: Trace) -> None:
    for number, junk in enumerate((5, ["x"], {"y": 1}, "")):
        one = request(f"r{number}", do_remote_prefill=True, remote_request_id=junk, remote_engine_id=junk)
        scheduler_side.queued(scheduler(one), one)
    assert [moment.has_peer for moment in trace.moments("queued")] == [False] * 4
    assert trace.faults() == 0


def test_an_engine_in_its_callers_thread_does_not_take_that_for_the_input_thread(trace: Trace) -> None:
    one = SimpleNamespace(request_id="a", sampling_params=None, arrival_time=0.0)
    scheduler_side.taken(None, one)
    assert [moment.thread for moment in trace.moments("taken")] == ["unknown"]


def test_held_again_after_its_blocks_were_reserved_is_told_again(trace: Trace) -> None:
    one = request("a", do_remote_prefill=True)
    engine = scheduler(one)
    scheduler_side.queued(engine, one)
    for _ in range(2):
        scheduler_side.held_for_blocks(engine, one, True)
        scheduler_side.held_for_blocks(engine, one, True)
        scheduler_side.reserved(PUSH, one, [[1]], 8)
    assert [moment.reason for moment in trace.moments("held")] == ["blocks", "blocks"]


def test_an_engine_that_falls_idle_says_so_however_often_its_load_has_changed(trace: Trace) -> None:
    engine = scheduler()
    for running in range(1, 20):
        engine.running = [0] * running
        scheduler_side.step_ended(engine, scheduled_step(engine, running))
    engine.running = []
    scheduler_side.step_ended(engine, scheduled_step(engine, 20))
    assert [moment.values[1] for moment in trace.moments("load")] == [*range(1, 11), 0]


FORKING = """
import os
from kvscope.vllm import scheduler_side, worker_side
scheduler_side.engine.step = worker_side.worker.step = 5
if os.fork() == 0:
    os._exit(scheduler_side.engine.step + worker_side.worker.step)
print(os.waitstatus_to_exitcode(os.wait()[1]), scheduler_side.engine.step)
"""


def test_a_forked_child_remembers_nothing_of_its_parents_requests() -> None:
    done = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["0", "5"]


def test_a_request_whose_blocks_are_loaded_is_held_for_want_of_a_slot(trace: Trace) -> None:
    one = request("a", do_remote_prefill=True)
    engine = scheduler(one)
    engine.max_num_running_reqs, engine.running = 1, [object()]
    engine.finished_recving_kv_req_ids = {"a"}
    scheduler_side.queued(engine, one)
    for _ in range(3):
        scheduler_side.batch_made(engine, 10, [])
    assert [held.reason for held in trace.moments("held")] == ["slot"]

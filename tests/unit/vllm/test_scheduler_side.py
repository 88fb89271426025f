"""What the scheduler's tracepoints remember, for how long, and what they make of it."""

from __future__ import annotations

import itertools
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from kvscope.probe import layout
from kvscope.vllm import scheduler_side

from .conftest import Trace

PUSH = SimpleNamespace(_TRANSFER_MODE="push")


def request(name: str, **params: Any) -> SimpleNamespace:
    """A request as the scheduler holds it."""
    return SimpleNamespace(
        request_id=name,
        kv_transfer_params=params,
        num_prompt_tokens=8,
        num_computed_tokens=8,
        num_output_tokens=0,
        status=SimpleNamespace(name="FINISHED_LENGTH_CAPPED"),
    )


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
        has_requests=lambda: bool(requests),
    )


def scheduled_step(engine: SimpleNamespace, number: int, tokens: int = 1) -> SimpleNamespace:
    """The output of a step that was scheduled."""
    engine.current_step = number
    output = SimpleNamespace(num_scheduled_tokens={"a": 1} if tokens else {}, total_num_scheduled_tokens=tokens)
    scheduler_side.step_begun(engine)
    scheduler_side.step_scheduled(engine, output)
    return output


def produce(*requests: SimpleNamespace, ended: bool = False) -> None:
    """A step brings a token for each, which may be its last: vLLM tells the end of a request first."""
    for one in requests:
        one.num_output_tokens += 1
        if ended:
            scheduler_side.finished(None, one)
    outputs = [SimpleNamespace(request_id=one.request_id, new_token_ids=[5]) for one in requests]
    scheduler_side.tokens(None, {0: outputs})


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Sets the time that the tracepoints read."""
    now = SimpleNamespace(ns=1)
    monkeypatch.setattr(scheduler_side, "monotonic_ns", lambda: now.ns)
    return now


def test_a_step_that_never_ended_does_not_number_the_first_tokens_after_it(trace: Trace) -> None:
    one, another = request("a"), request("b")
    engine = scheduler(one, another)
    scheduler_side.queued(engine, one)
    scheduler_side.queued(engine, another)
    lost = scheduled_step(engine, 1)
    scheduler_side.step_ended(engine, scheduled_step(engine, 2))
    last = scheduled_step(engine, 3)
    produce(another)
    assert [moment.step for moment in trace.moments("first_token")] == [3]
    assert lost is not last


def test_what_is_queued_only_to_be_aborted_is_called_a_clean_up(trace: Trace) -> None:
    """vLLM's API server has prefill's blocks freed that way; a request's own parameters look the same."""
    params = {"do_remote_prefill": True, "remote_request_id": "p"}
    usual, cleanup = request("cmpl-a-0-0a1b2c3d", **params), request("9f587b005d039c5d", **params)
    usual.abort_immediately, cleanup.abort_immediately = False, True
    for one in (usual, cleanup, request("of an older release", **params)):
        scheduler_side.queued(scheduler(), one)
    flags = [moment.flags for moment in trace.moments("queued")]
    assert [flag & layout.FLAG_CLEANUP != 0 for flag in flags] == [False, True, False]


def test_steps_in_flight_are_told_apart(trace: Trace) -> None:
    one, another = request("a"), request("b")
    engine = scheduler(one, another)
    scheduler_side.queued(engine, one)
    scheduler_side.queued(engine, another)
    first, second = scheduled_step(engine, 1), scheduled_step(engine, 2)
    produce(one)
    scheduler_side.step_ended(engine, first)
    produce(another)
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


def test_the_largest_gap_is_found_wherever_it_lies(trace: Trace, clock: SimpleNamespace) -> None:
    for name, times in (("early", (10, 90, 100, 110)), ("last", (10, 20, 30, 110)), ("apart", (10, 20, 100, 105))):
        one = request(name)
        scheduler_side.queued(scheduler(one), one)
        for clock.ns in times[:-1]:
            produce(one, request("unknown"))
        clock.ns = times[-1]
        produce(one, ended=True)
    assert [moment.values for moment in trace.moments("finished")] == [(4, 80)] * 3
    assert [moment.t for moment in trace.moments("first_token")] == [10] * 3


def test_a_request_that_ends_with_its_first_token_has_one(trace: Trace, clock: SimpleNamespace) -> None:
    one, other = request("a"), request("p", do_remote_decode=True)
    for each in (one, other):
        scheduler_side.queued(scheduler(each), each)
    clock.ns = 50
    produce(one, other, ended=True)
    assert [(moment.t, moment.values) for moment in trace.moments("first_token")] == [(50, (1,))]
    assert [moment.values for moment in trace.moments("finished")] == [(1,), (1,)]


def test_an_abort_ends_no_gap(trace: Trace, clock: SimpleNamespace) -> None:
    one = request("a")
    scheduler_side.queued(scheduler(one), one)
    for clock.ns in (10, 20):
        produce(one)
    clock.ns, one.status.name = 900, "FINISHED_ABORTED"
    scheduler_side.finished(None, one)
    assert [(moment.reason, moment.values) for moment in trace.moments("finished")] == [("abort", (2, 10))]


def test_an_output_without_tokens_is_no_first_token(trace: Trace) -> None:
    one = request("a")
    scheduler_side.queued(scheduler(one), one)
    scheduler_side.tokens(None, {0: [SimpleNamespace(request_id="a", new_token_ids=[])]})
    assert trace.moments("first_token") == []


def test_what_came_while_the_probe_was_off_is_no_first_token_and_ends_no_gap(
    trace: Trace, clock: SimpleNamespace
) -> None:
    known, running, stranger = request("known"), request("running"), request("stranger")
    engine = scheduler(known, running, stranger)
    for one in (known, running):
        scheduler_side.queued(engine, one)
    scheduled_step(engine, 1)
    clock.ns = 10
    produce(running)
    known.num_output_tokens = running.num_output_tokens = stranger.num_output_tokens = 7
    clock.ns = 900
    scheduled_step(engine, 8)
    clock.ns = 905
    produce(known, running, stranger, ended=True)
    assert [moment.t for moment in trace.moments("first_token")] == [10]
    assert [moment.values for moment in trace.moments("finished")] == [(8, 5), (8, 5), (8,)]


def folded(trace: Trace) -> list[int]:
    """How many steps each record of an engine step stands for."""
    return [moment.values[-1] for moment in trace.moments("step")]


def test_steps_without_a_forward_are_written_when_no_step_need_follow(trace: Trace) -> None:
    engine = scheduler(request("a"))
    for number in range(1, 4):
        scheduler_side.step_ended(engine, scheduled_step(engine, number, tokens=0))
    assert folded(trace) == [], "a request is waiting: more will follow"
    engine.has_requests = lambda: False
    scheduler_side.step_ended(engine, scheduled_step(engine, 4, tokens=0))
    assert folded(trace) == [4]


def test_with_a_step_in_flight_one_follows(trace: Trace) -> None:
    engine = scheduler()
    first, second = scheduled_step(engine, 1, tokens=0), scheduled_step(engine, 2, tokens=0)
    scheduler_side.step_ended(engine, first)
    assert folded(trace) == []
    scheduler_side.step_ended(engine, second)
    assert folded(trace) == [2]


def test_workers_are_told_that_a_step_may_be_the_last_but_not_for_ever(trace: Trace) -> None:
    one = request("a")
    busy, idle = scheduler(one), scheduler()
    said = []
    for number, engine in enumerate((busy, *itertools.repeat(idle, 99), busy, idle), 1):
        scheduled_step(engine, number, tokens=0)
        meta = SimpleNamespace()
        scheduler_side.metadata_built(None, meta)
        said.append(getattr(meta, "kvs_last", False))
    assert (said[:2], said[99:]) == ([False, True], [False, False, True])


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({"traceparent": PARENT, "tracestate": "a=b"}, PARENT),
        ({"tracestate": "a=b"}, None),
        ({"traceparent": 7}, None),
        ({"traceparent": PARENT + "-" + "x" * 5000}, None),
        ({}, None),
        (None, None),
    ],
)
def test_the_span_that_a_request_came_under_is_told(trace: Trace, headers: Any, told: str | None) -> None:
    one = request("a")
    one.trace_headers = headers
    scheduler_side.queued(scheduler(one), one)
    (queued,) = trace.moments("queued")
    assert trace.texts().get(queued.values[-1]) == told
    assert len(trace.texts()) == (2 if told else 1)
    assert trace.faults() == 0

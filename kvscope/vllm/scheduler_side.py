"""Moments taken in EngineCore: the input thread and the scheduler."""

from __future__ import annotations

import os
import threading
from time import monotonic_ns, time_ns
from typing import Any

from kvscope.probe import layout, recorder
from kvscope.probe.recorder import record
from kvscope.probe.vocabulary import DIRECTION_CODE, LEG_CODE, MOMENT_CODE, REASON_CODE, UNKNOWN
from kvscope.vllm.asked import blocks_in, given, leg_of, peer_engine, traceparent
from kvscope.vllm.guard import tracepoint
from kvscope.vllm.load import Load
from kvscope.vllm.steps import StepFold

PREFILL, DECODE = LEG_CODE["prefill"], LEG_CODE["decode"]
ARRIVED, TAKEN, QUEUED = (MOMENT_CODE["arrived"], MOMENT_CODE["taken"], MOMENT_CODE["queued"])
HELD, RESERVED, READY = (MOMENT_CODE["held"], MOMENT_CODE["reserved"], MOMENT_CODE["ready"])
SCHEDULED, CHUNK, COMPUTED = (MOMENT_CODE["scheduled"], MOMENT_CODE["chunk"], MOMENT_CODE["computed"])
PREEMPTED, RESUMED = MOMENT_CODE["preempted"], MOMENT_CODE["resumed"]
FIRST_TOKEN, FINISHED, RELEASED = (MOMENT_CODE["first_token"], MOMENT_CODE["finished"], MOMENT_CODE["released"])
FINISH_REASON = {
    "FINISHED_STOPPED": REASON_CODE["stop"],
    "FINISHED_LENGTH_CAPPED": REASON_CODE["length"],
    "FINISHED_ABORTED": REASON_CODE["abort"],
}

ENDED_BY_A_TOKEN = (REASON_CODE["stop"], REASON_CODE["length"])

# No step need follow one that began without a request, so the workers are told. Not for ever: other connectors beside
# ours can keep the engine stepping.
LAST_STEPS = 16

# How many requests may be remembered beyond those that the scheduler has: those that ended while the probe was off.
STRAYS = 1024


class Seen:
    """What the tracepoints remember of a request between two of them."""

    __slots__ = ("held", "largest_gap", "last_token", "leg", "scheduled")

    def __init__(self, leg: int) -> None:
        self.leg = leg
        self.scheduled = False
        self.held = 0
        self.last_token = 0
        self.largest_gap = 0


class Engine:
    """State of the one scheduler in this process. Touched by EngineCore's main thread only."""

    def __init__(self) -> None:
        self.named = False  # whether it was told which engine this is
        self.seen: dict[str, Seen] = {}
        self.chunked: dict[str, int] = {}  # prompts in several chunks -> step of the last one
        self.step = 0
        self.step_begin = 0
        self.drained = 0  # steps in a row that began without a request
        self.steps: dict[int, tuple[int, int, int, int]] = {}  # id(output) -> number, begin, requests, tokens
        self.fold = StepFold()
        self.load = Load()
        self.unusual_legs: dict[str, int] = {}


class InputThread(threading.local):
    """Whether the calling thread has said that it is the input thread."""

    named = False


engine = Engine()
input_thread = InputThread()


def forget() -> None:
    """Start anew: in a forked child, and in tests."""
    global engine, input_thread
    engine, input_thread = Engine(), InputThread()


os.register_at_fork(after_in_child=forget)


def state() -> Engine:
    """The state of this process's scheduler, as it is now."""
    return engine


def _seen(request: Any) -> Seen:
    """What is remembered of it; where that is nothing, the probe was off when it came."""
    found = engine.seen.get(request.request_id)
    if found is None:
        found = engine.seen[request.request_id] = Seen(leg_of(request.kv_transfer_params))
        _catch_up(found, request)
    return found


def _catch_up(seen: Seen, request: Any) -> None:
    """Tokens that came while the probe was off: the next is no first one, and ends no gap that was seen."""
    if request.num_output_tokens:
        seen.last_token = monotonic_ns()


def known_leg(request_id: str) -> int:
    """The leg of a request that the scheduler has; decode where nothing is known."""
    found = engine.seen.get(request_id)
    return found.leg if found else DECODE


@tracepoint
def taken(_core: Any, request: Any) -> None:
    """The input thread has it. The API server's wall clock is converted with a pair taken here."""
    if not input_thread.named:
        input_thread.named = True
        if threading.current_thread() is not threading.main_thread():  # it is, where the engine runs in its caller
            recorder.set_role("input")
    now, wall = monotonic_ns(), time_ns()
    sampling = request.sampling_params
    extra = sampling.extra_args if sampling is not None else None
    leg = leg_of(extra.get("kv_transfer_params") if extra else None)
    arrival = int(request.arrival_time * 1e9)
    arrived = now - (wall - arrival)
    record(ARRIVED, leg, request.request_id, arrived, arrival, flags=layout.FLAG_CLOCK_STEP if arrived > now else 0)
    record(TAKEN, leg, request.request_id, now)


@tracepoint
def queued(scheduler: Any, request: Any) -> None:
    """It entered the scheduler's queue. D's carries the P request id that the router gave."""
    params = request.kv_transfer_params or {}
    seen = engine.seen[request.request_id] = Seen(leg_of(params))
    direction, turn = "none", UNKNOWN
    flags = layout.FLAG_CLEANUP if getattr(request, "abort_immediately", False) else 0  # the API server's, no client's
    if params.get("do_remote_prefill"):
        flags, direction = flags | layout.FLAG_REMOTE_PREFILL, "to_decode"
    elif params.get("do_remote_decode"):
        flags |= layout.FLAG_REMOTE_DECODE
        if params.get("remote_block_ids"):
            direction, turn = "to_prefill", 2
        else:
            turn = 1
    record(
        QUEUED,
        seen.leg,
        request.request_id,
        0,
        request.num_prompt_tokens,
        DIRECTION_CODE[direction],
        turn,
        peer_engine(params),
        traceparent(request),
        peer=given(params, "remote_request_id"),
        step=scheduler.current_step & 0xFFFFFFFF,
        flags=flags,
    )


@tracepoint
def step_begun(scheduler: Any) -> None:
    """A step begins with `schedule()`."""
    step = scheduler.current_step & 0xFFFFFFFF
    if step != engine.step + 1:  # others went by while the probe was off
        for request_id in engine.seen.keys() & scheduler.requests.keys():
            _catch_up(engine.seen[request_id], scheduler.requests[request_id])
    engine.step, engine.step_begin = step, monotonic_ns()
    engine.drained = 0 if scheduler.requests else engine.drained + 1


def _hold(scheduler: Any, request: Any, reason: int) -> None:
    seen = _seen(request)
    if seen.held != reason:
        seen.held = reason
        free = scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
        record(HELD, seen.leg, request.request_id, 0, UNKNOWN, free, step=engine.step, reason=reason)


@tracepoint
def held_for_blocks(scheduler: Any, request: Any, _load_kv_async: Any) -> None:
    """It could not be admitted: no KV blocks. Written at each change of reason."""
    _hold(scheduler, request, REASON_CODE["blocks"])


@tracepoint
def batch_made(scheduler: Any, token_budget: Any, preempted_reqs: Any) -> None:
    """The batch is made: why the head of the queue, and those whose KV is loaded, are not in it, if not for blocks."""
    waiting, loaded = scheduler.waiting, scheduler.finished_recving_kv_req_ids
    if not waiting and not loaded:
        return
    if preempted_reqs:
        reason = REASON_CODE["preemption"]
    elif token_budget <= 0:
        reason = REASON_CODE["budget"]
    elif len(scheduler.running) >= scheduler.max_num_running_reqs:
        reason = REASON_CODE["slot"]
    else:
        return
    if waiting:
        _hold(scheduler, waiting.peek_request(), reason)
    for request_id in loaded:
        _hold(scheduler, scheduler.requests[request_id], reason)


@tracepoint
def reserved(connector: Any, request: Any, local_block_ids: Any, num_external_tokens: Any) -> None:
    """KV blocks were allocated for what the peer will fill. Pull: both request ids are known here."""
    if num_external_tokens <= 0:
        return
    params = request.kv_transfer_params
    seen = _seen(request)
    seen.held = 0
    if seen.leg == PREFILL:  # the return read of a later turn: the worker must know
        engine.unusual_legs[request.request_id] = PREFILL
    record(
        RESERVED,
        seen.leg,
        request.request_id,
        0,
        blocks_in(local_block_ids),
        num_external_tokens,
        max(0, request.num_prompt_tokens - num_external_tokens),
        peer_engine(params),
        peer=given(params, "remote_request_id") if connector._TRANSFER_MODE == "pull" else None,
        step=engine.step,
    )


@tracepoint
def scheduled(_scheduler: Any, request: Any, num_new_tokens: Any, num_computed_tokens: Any) -> None:
    """It is in the batch of a step: first prompt tokens on P, decode start on D; or it came back."""
    request_id = request.request_id
    seen = engine.seen.get(request_id) or _seen(request)
    moment = RESUMED if seen.scheduled else SCHEDULED
    seen.scheduled, seen.held = True, 0
    record(moment, seen.leg, request_id, 0, num_new_tokens, num_computed_tokens, step=engine.step)
    if num_computed_tokens + num_new_tokens < request.num_prompt_tokens:
        engine.chunked[request_id] = engine.step


@tracepoint
def preempted(_scheduler: Any, request: Any) -> None:
    """It lost its place and its blocks."""
    record(PREEMPTED, known_leg(request.request_id), request.request_id, step=engine.step)
    engine.chunked.pop(request.request_id, None)


@tracepoint
def step_scheduled(scheduler: Any, scheduler_output: Any) -> None:
    """What the step will run is settled: note it, and the further chunks in it."""
    tokens = scheduler_output.num_scheduled_tokens
    engine.steps[id(scheduler_output)] = (
        engine.step,
        engine.step_begin,
        len(tokens),
        scheduler_output.total_num_scheduled_tokens,
    )
    if engine.chunked:
        _chunks(scheduler, tokens)
    if len(engine.steps) > 64:  # outputs that never came back
        engine.steps.pop(next(iter(engine.steps)))


def _chunks(scheduler: Any, tokens: dict[str, int]) -> None:
    for request_id, last_step in list(engine.chunked.items()):
        request = scheduler.requests.get(request_id)
        if request is None:
            del engine.chunked[request_id]
            continue
        if request_id in tokens and last_step != engine.step:
            record(CHUNK, known_leg(request_id), request_id, 0, tokens[request_id], step=engine.step)
            engine.chunked[request_id] = engine.step
        if request.num_computed_tokens >= request.num_prompt_tokens:
            del engine.chunked[request_id]


@tracepoint
def tokens(_scheduler: Any, outputs: Any) -> None:
    """What a step brought, by client: first tokens, and the gaps between later ones. vLLM counts them itself.

    One pass over all when they are made: with hundreds of requests in a step, a call for each is dear.
    """
    now, find = monotonic_ns(), engine.seen.get
    for batch in outputs.values():
        for output in batch:
            seen = find(output.request_id)
            if seen is None:
                continue
            if now - seen.last_token > seen.largest_gap:
                _late(seen, output.request_id, now, len(output.new_token_ids))
            seen.last_token = now


def _late(seen: Seen, request_id: str, now: int, new: int) -> None:
    """Its first tokens, or those after its largest gap so far."""
    if seen.last_token:
        seen.largest_gap = now - seen.last_token
    elif new and seen.leg != PREFILL:
        step = next(iter(engine.steps.values()))[0] if engine.steps else engine.step
        record(FIRST_TOKEN, seen.leg, request_id, now, new, step=step)


@tracepoint
def computed(_connector: Any, request: Any, block_ids: Any) -> None:
    """Prefill finished; these blocks are final."""
    if leg_of(request.kv_transfer_params) != PREFILL:  # a decode leg that keeps its blocks for a later turn
        engine.unusual_legs[request.request_id] = DECODE
        return
    record(
        COMPUTED, PREFILL, request.request_id, 0, request.num_computed_tokens, blocks_in(block_ids), step=engine.step
    )


@tracepoint
def finished(_scheduler: Any, request: Any) -> None:
    """The request is over; its blocks may not be free yet."""
    request_id, now, count = request.request_id, monotonic_ns(), request.num_output_tokens
    seen = engine.seen.get(request_id) or _seen(request)
    reason = FINISH_REASON.get(request.status.name, REASON_CODE["error"])
    if reason in ENDED_BY_A_TOKEN and count and now - seen.last_token > seen.largest_gap:
        _late(seen, request_id, now, count)  # `tokens` will be told of that one too late
        seen.last_token = now
    gap = seen.largest_gap or UNKNOWN
    record(FINISHED, seen.leg, request_id, now, count, gap, step=engine.step, reason=reason)


@tracepoint
def released(_scheduler: Any, request: Any) -> None:
    """Its KV blocks were freed."""
    record(RELEASED, known_leg(request.request_id), request.request_id, step=engine.step)
    engine.seen.pop(request.request_id, None)
    engine.chunked.pop(request.request_id, None)


@tracepoint
def ready(scheduler: Any, request: Any) -> None:
    """The scheduler was told that its KV is there (or that loading it failed and it is to be recomputed)."""
    request_id = request.request_id
    failed = request_id in scheduler.failed_recving_kv_req_ids
    flags = layout.FLAG_RECOMPUTE if failed else 0
    record(READY, known_leg(request_id), request_id, step=engine.step, flags=flags)


@tracepoint
def metadata_built(_connector: Any, meta: Any) -> None:
    """Tell the workers which step this is, and which requests are not on their engine's usual leg."""
    meta.kvs_step = engine.step
    if 0 < engine.drained < LAST_STEPS:
        meta.kvs_last = True
    if engine.unusual_legs:
        meta.kvs_legs, engine.unusual_legs = engine.unusual_legs, {}


@tracepoint
def step_ended(scheduler: Any, scheduler_output: Any) -> None:
    """The step's results are processed."""
    now = monotonic_ns()
    step = engine.steps.pop(id(scheduler_output), None)
    if step is not None:
        number, begin, requests, count = step
        while engine.steps and next(iter(engine.steps.values()))[1] < begin:  # outputs come back in order
            engine.steps.pop(next(iter(engine.steps)))
        engine.fold.add(number, begin, now, requests, count)
        if not (count or engine.steps or scheduler.has_requests()):  # no step follows until a request comes
            engine.fold.flush()
    if len(engine.seen) > len(scheduler.requests) + STRAYS:
        engine.seen = {name: seen for name, seen in engine.seen.items() if name in scheduler.requests}
    engine.load.note(scheduler, now, engine.step)

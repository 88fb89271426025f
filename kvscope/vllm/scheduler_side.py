"""Moments taken in EngineCore: the input thread and the scheduler."""

from __future__ import annotations

import os
import threading
from collections import deque
from time import monotonic_ns, time_ns
from typing import Any

from kvscope.probe import layout, recorder
from kvscope.probe.recorder import record
from kvscope.probe.vocabulary import DIRECTION_CODE, LEG_CODE, MOMENT_CODE, REASON_CODE, UNKNOWN
from kvscope.vllm.guard import tracepoint
from kvscope.vllm.steps import StepFold

PREFILL, DECODE, ENGINE = LEG_CODE["prefill"], LEG_CODE["decode"], LEG_CODE["engine"]
ARRIVED, TAKEN, QUEUED = (MOMENT_CODE["arrived"], MOMENT_CODE["taken"], MOMENT_CODE["queued"])
HELD, RESERVED, READY = (MOMENT_CODE["held"], MOMENT_CODE["reserved"], MOMENT_CODE["ready"])
SCHEDULED, CHUNK, COMPUTED = (MOMENT_CODE["scheduled"], MOMENT_CODE["chunk"], MOMENT_CODE["computed"])
PREEMPTED, RESUMED = MOMENT_CODE["preempted"], MOMENT_CODE["resumed"]
FIRST_TOKEN, FINISHED, RELEASED = (MOMENT_CODE["first_token"], MOMENT_CODE["finished"], MOMENT_CODE["released"])
FAILED, LOAD = MOMENT_CODE["failed"], MOMENT_CODE["load"]
FINISH_REASON = {
    "FINISHED_STOPPED": REASON_CODE["stop"],
    "FINISHED_LENGTH_CAPPED": REASON_CODE["length"],
    "FINISHED_ABORTED": REASON_CODE["abort"],
}

# How many requests may be remembered beyond those that the scheduler has: those that ended while the probe was off.
STRAYS = 1024


class Seen:
    """What the tracepoints remember of a request between two of them."""

    __slots__ = ("held", "largest_gap", "last_token", "leg", "scheduled", "tokens")

    def __init__(self, leg: int) -> None:
        self.leg = leg
        self.scheduled = False
        self.held = 0
        self.last_token = 0
        self.largest_gap = 0
        self.tokens = 0


class Engine:
    """State of the one scheduler in this process. Touched by EngineCore's main thread only."""

    def __init__(self) -> None:
        self.seen: dict[str, Seen] = {}
        self.chunked: dict[str, int] = {}  # prompts in several chunks -> step of the last one
        self.step = 0
        self.step_begin = 0
        self.steps: dict[int, tuple[int, int, int, int]] = {}  # id(output) -> number, begin, requests, tokens
        self.fold = StepFold()
        self.load: tuple[int, ...] = ()
        self.loads: deque[int] = deque(maxlen=10)  # when the last ten were written
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


def leg_of(params: Any) -> int:
    """The leg a request is on: its own parameters tell, never the engine's role."""
    return PREFILL if params and params.get("do_remote_decode") else DECODE


def blocks_in(groups: Any) -> int:
    """KV blocks in vLLM's per-group lists (or one flat list)."""
    count = 0
    for group in groups or ():  # a loop: a generator costs more than all it would add up here
        count += len(group) if isinstance(group, (list, tuple)) else 1
    return count


def peer_engine(params: Any) -> int:
    """The other engine's id as a value, UNKNOWN where the router named none."""
    name = _given(params, "remote_engine_id")
    return UNKNOWN if name is None else recorder.text(name)


def _given(params: Any, name: str) -> str | None:
    """A text among a request's parameters; None for anything else, since clients can send what they like."""
    value = params.get(name) if params else None
    return value if isinstance(value, str) and value else None


def _seen(request: Any) -> Seen:
    found = engine.seen.get(request.request_id)
    if found is None:
        found = engine.seen[request.request_id] = Seen(leg_of(request.kv_transfer_params))
    return found


def _leg(request_id: str) -> int:
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
    flags, direction, turn = 0, "none", UNKNOWN
    if params.get("do_remote_prefill"):
        flags, direction = layout.FLAG_REMOTE_PREFILL, "to_decode"
    elif params.get("do_remote_decode"):
        flags = layout.FLAG_REMOTE_DECODE
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
        peer=_given(params, "remote_request_id"),
        step=scheduler.current_step & 0xFFFFFFFF,
        flags=flags,
    )


@tracepoint
def step_begun(scheduler: Any) -> None:
    """A step begins with `schedule()`."""
    engine.step = scheduler.current_step & 0xFFFFFFFF
    engine.step_begin = monotonic_ns()


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
        peer=_given(params, "remote_request_id") if connector._TRANSFER_MODE == "pull" else None,
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
    record(PREEMPTED, _leg(request.request_id), request.request_id, step=engine.step)
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
            record(CHUNK, _leg(request_id), request_id, 0, tokens[request_id], step=engine.step)
            engine.chunked[request_id] = engine.step
        if request.num_computed_tokens >= request.num_prompt_tokens:
            del engine.chunked[request_id]


@tracepoint
def tokens(_scheduler: Any, request: Any, new_token_ids: Any) -> None:
    """Output of a step for one request: its first token, and the gaps between the later ones."""
    if not new_token_ids:
        return
    seen = engine.seen.get(request.request_id)
    if seen is None:
        return
    now = monotonic_ns()
    if seen.last_token:
        gap = now - seen.last_token
        if gap > seen.largest_gap:
            seen.largest_gap = gap
    elif seen.leg != PREFILL:
        number = next(iter(engine.steps.values()))[0] if engine.steps else engine.step
        record(FIRST_TOKEN, seen.leg, request.request_id, now, len(new_token_ids), step=number)
    seen.last_token = now
    seen.tokens += len(new_token_ids)


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
    request_id = request.request_id
    seen = engine.seen.get(request_id) or _seen(request)
    reason = FINISH_REASON.get(request.status.name, REASON_CODE["error"])
    record(
        FINISHED,
        seen.leg,
        request_id,
        0,
        seen.tokens,
        seen.largest_gap if seen.tokens > 1 else UNKNOWN,
        step=engine.step,
        reason=reason,
    )


@tracepoint
def released(_scheduler: Any, request: Any) -> None:
    """Its KV blocks were freed."""
    record(RELEASED, _leg(request.request_id), request.request_id, step=engine.step)
    engine.seen.pop(request.request_id, None)
    engine.chunked.pop(request.request_id, None)


@tracepoint
def ready(scheduler: Any, request: Any) -> None:
    """The scheduler was told that its KV is there (or that loading it failed and it is to be recomputed)."""
    request_id = request.request_id
    failed = request_id in scheduler.failed_recving_kv_req_ids
    flags = layout.FLAG_RECOMPUTE if failed else 0
    record(READY, _leg(request_id), request_id, step=engine.step, flags=flags)


@tracepoint
def load_failed(_scheduler: Any, request_id: Any) -> None:
    """A load failed, as the worker reported it by request."""
    record(FAILED, _leg(request_id), request_id, step=engine.step, reason=REASON_CODE["load_failed"])


@tracepoint
def loads_failed(_scheduler: Any, asynchronous: Any, synchronous: Any) -> None:
    """Loads failed, as the worker reported them by block."""
    for request_id in asynchronous | synchronous:
        record(FAILED, _leg(request_id), request_id, step=engine.step, reason=REASON_CODE["load_failed"])


@tracepoint
def registration_expired(_connector: Any, request_id: Any) -> None:
    """D's watchdog gave up on a registration. vLLM only warns: the request stays parked."""
    record(FAILED, DECODE, request_id, step=engine.step, reason=REASON_CODE["registration_expired"])


@tracepoint
def metadata_built(_connector: Any, meta: Any) -> None:
    """Tell the workers which step this is, and which requests are not on their engine's usual leg."""
    meta.kvs_step = engine.step
    if engine.unusual_legs:
        meta.kvs_legs, engine.unusual_legs = engine.unusual_legs, {}


@tracepoint
def step_ended(scheduler: Any, scheduler_output: Any) -> None:
    """The step's results are processed."""
    now = monotonic_ns()
    step = engine.steps.pop(id(scheduler_output), None)
    if step is not None:
        engine.fold.add(step[0], step[1], now, step[2], step[3])
        while engine.steps and next(iter(engine.steps.values()))[1] < step[1]:  # outputs come back in order
            engine.steps.pop(next(iter(engine.steps)))
    if len(engine.seen) > len(scheduler.requests) + STRAYS:
        engine.seen = {name: seen for name, seen in engine.seen.items() if name in scheduler.requests}
    _load(scheduler, now)


def _load(scheduler: Any, now: int) -> None:
    """Write the load when it changed, at most ten times a second; once nothing is left, always: no step may follow."""
    load = (
        len(scheduler.waiting),
        len(scheduler.running),
        len(scheduler.kv_holding_waiting),
        scheduler.kv_cache_manager.block_pool.get_num_free_blocks(),
    )
    times = engine.loads
    often = len(times) == 10 and now - times[0] < 1_000_000_000
    if load == engine.load or (often and any(load[:3])):
        return
    engine.load = load
    times.append(now)
    record(LOAD, ENGINE, None, now, *load, step=engine.step)

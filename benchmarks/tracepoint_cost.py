"""What whole tracepoints cost inside an engine, as ratios to one `time.monotonic_ns()` call.

python benchmarks/tracepoint_cost.py [--rounds 15] [--calls 4000]

Each is called as the patched lines call it, on objects shaped like the engine's, with the guard around it
and the record written. Ratios are taken round by round, and their median is shown: what slows the machine
for a while slows the yardstick too.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic_ns, thread_time_ns
from types import SimpleNamespace

from kvscope.probe import control
from kvscope.probe.reader import list_rings
from kvscope.vllm import scheduler_side, worker_side

MOST = 20
BATCH = 256
Call = Callable[[], object]


@dataclass(slots=True)
class Output:
    """What a step brought a request; vLLM's has slots too."""

    request_id: str
    new_token_ids: list[int] = field(default_factory=lambda: [5])


def request(number: int, *, prefill: bool = False) -> SimpleNamespace:
    """A request as the scheduler holds it."""
    params = {"do_remote_decode": prefill, "do_remote_prefill": not prefill, "remote_engine_id": "engine-of-peer"}
    return SimpleNamespace(
        request_id=f"cmpl-{number:032x}-0",
        kv_transfer_params=params,
        num_prompt_tokens=1000,
        num_computed_tokens=1000,
        num_output_tokens=100,
        status=SimpleNamespace(name="FINISHED_LENGTH_CAPPED"),
        sampling_params=SimpleNamespace(extra_args={"kv_transfer_params": params}),
        arrival_time=1.7e9,
    )


def scheduler() -> SimpleNamespace:
    """A scheduler whose load never changes."""
    pool = SimpleNamespace(get_num_free_blocks=lambda: 100)
    return SimpleNamespace(
        current_step=7,
        waiting=[],
        running=[1, 2, 3],
        kv_holding_waiting=[],
        kv_cache_manager=SimpleNamespace(block_pool=pool),
        requests={"cmpl-1": None},
        failed_recving_kv_req_ids=set(),
        finished_recving_kv_req_ids=set(),
        max_num_running_reqs=32,
    )


def calls() -> dict[str, tuple[Call, int]]:
    """What is measured: name -> (one go, tracepoints or requests in it)."""
    return {**_scheduler_calls(), **_worker_calls()}


def _scheduler_calls() -> dict[str, tuple[Call, int]]:
    engine, one, blocks = scheduler(), request(1), [[1, 2, 3, 4]]
    output = SimpleNamespace(num_scheduled_tokens={one.request_id: 1}, total_num_scheduled_tokens=1)
    connector = SimpleNamespace(_TRANSFER_MODE="push")
    prefill = request(2, prefill=True)
    outputs = [Output(request(number).request_id) for number in range(BATCH)]
    for number in range(BATCH):
        scheduler_side.queued(engine, request(number))

    def step() -> None:
        engine.current_step += 1
        scheduler_side.step_begun(engine)
        scheduler_side.batch_made(engine, 100, [])
        scheduler_side.step_scheduled(engine, output)
        scheduler_side.metadata_built(None, output)
        scheduler_side.step_ended(engine, output)

    def decoded() -> None:
        scheduler_side.tokens(engine, {0: outputs})

    decoded()
    return {
        "taken (2 records)": (lambda: scheduler_side.taken(None, one), 1),
        "queued": (lambda: scheduler_side.queued(engine, one), 1),
        "reserved": (lambda: scheduler_side.reserved(connector, one, blocks, 1000), 1),
        "scheduled": (lambda: scheduler_side.scheduled(engine, one, 1, 1000), 1),
        f"tokens of {BATCH} requests": (decoded, BATCH),
        "computed": (lambda: scheduler_side.computed(connector, prefill, blocks), 1),
        "ready": (lambda: scheduler_side.ready(engine, one), 1),
        "finished": (lambda: scheduler_side.finished(engine, one), 1),
        "scheduler's step": (step, 5),  # `tokens` apart
    }


def _worker_calls() -> dict[str, tuple[Call, int]]:
    push = SimpleNamespace(_TRANSFER_MODE="push", tp_rank=0, _reqs_to_send={}, _reqs_to_process=set())
    name, blocks, handle = "cmpl-1-0", [[1, 2, 3, 4]], object()
    meta = SimpleNamespace(kvs_step=7)
    output = SimpleNamespace(kv_connector_metadata=meta, num_scheduled_tokens={name: 1}, total_num_scheduled_tokens=1)
    reported = SimpleNamespace(finished_sending=None, finished_recving=None, failed_recving=(), invalid_block_ids=())
    worker_side.state().named = True
    told = {
        "local_block_ids": blocks,
        "remote_engine_id": "engine-p",
        "decode_engine_id": "engine-d",
        "request_id": "cmpl-2-0",
    }
    telemetry = SimpleNamespace(totalBytes=1 << 20, descCount=8, startTime=10, postDuration=5, xferDuration=100)
    descriptors = list(range(8))

    def step() -> None:
        worker_side.connector_begun(output)
        worker_side.forward_begun()
        worker_side.forward_ended()
        worker_side.connector_ended(reported)

    def poll() -> None:
        worker_side.polling(push)
        worker_side.polled(push, name, handle, "PROC")

    return {
        "registration_handed": (lambda: worker_side.registration_handed(push, name, told, meta), 1),
        "registration_received": (lambda: worker_side.registration_received(push, name, told), 1),
        "matched": (lambda: worker_side.matched(push, name, told), 1),
        "prepared": (lambda: worker_side.prepared(push, name, 0, descriptors, handle), 1),
        "posted": (lambda: worker_side.posted(push, name, 0, descriptors, handle), 1),
        "transfer_done": (lambda: worker_side.transfer_done(push, name, handle, telemetry), 1),
        "notified": (lambda: worker_side.notified(push, b"cmpl-1-0:1"), 1),
        "noticed": (lambda: worker_side.noticed(push, name), 1),
        "a poll in flight": (poll, 2),
        "worker's step": (step, 4),
    }


def nanoseconds(call: Call, times: int) -> float:
    """CPU time of one call in a loop. The loop's own few ns count as the call's."""
    span = range(times)
    begun = thread_time_ns()
    for _ in span:
        call()
    return (thread_time_ns() - begun) / times


def nothing() -> None:
    """The cost of being called."""


def measured(call: Call, rounds: int, times: int) -> tuple[float, float]:
    """(median ns of the call, median ratio to monotonic_ns), less what it costs to call the wrapper around it."""
    spans, ratios = [], []
    for _ in range(rounds):
        yardstick = nanoseconds(monotonic_ns, times)
        span = nanoseconds(call, times) - nanoseconds(nothing, times)
        spans.append(span)
        ratios.append(span / yardstick)
    return statistics.median(spans), statistics.median(ratios)


@contextmanager
def rings() -> Iterator[None]:
    """A run directory of our own, gone afterwards."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="kvscope-bench-", dir=shared if shared.is_dir() else None) as folder:
        os.environ["KVSCOPE_RUN_DIR"] = folder
        yield


def shown(found: dict[str, tuple[Call, int]], given: argparse.Namespace) -> None:
    """Measure and print each."""
    for name, (call, tracepoints) in found.items():
        span, ratio = measured(call, given.rounds, given.calls)
        over = "" if ratio / tracepoints <= MOST else "  <- above"
        print(f"{name:<24}{span:>9,.0f} ns{ratio:>8.1f} x{ratio / tracepoints:>8.1f} x each{over}")


def main() -> None:
    """Print the cost of each, switched on, and of one switched off."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=4000)
    given = parser.parse_args()
    with rings():
        clock = statistics.median(nanoseconds(monotonic_ns, given.calls) for _ in range(given.rounds))
        print(f"time.monotonic_ns(): {clock:.0f} ns")
        found = calls()
        shown(found, given)
        if errors := sum(ring.header.errors for ring in list_rings(Path(os.environ["KVSCOPE_RUN_DIR"]))):
            sys.exit(f"{errors} calls failed inside the probe: objects here lack what tracepoints read of an engine's")
        control.switch(Path(os.environ["KVSCOPE_RUN_DIR"]), None, on=False)
        shown({"scheduled, off": found["scheduled"], "worker's step, off": found["worker's step"]}, given)


if __name__ == "__main__":
    main()

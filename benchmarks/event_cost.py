"""What an event costs, as a multiple of reading the clock and as a fraction of an OpenTelemetry span.

    python benchmarks/event_cost.py [--rounds 15] [--check] [--ids hash]

Everything is measured in turn, round after round, so that a slow spell of the machine hits all alike; a ratio
is taken within a round, and the median of the rounds is what counts. `span` is what docs/cost.md defines: one that
says what an event says, and is kept. A bare one, without attributes or processor, is shown beside it.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

CALLS = 20_000
SPANS = 2_000
EVENTS_PER_REQUEST = 15
NEW_REQUESTS = CALLS // EVENTS_PER_REQUEST
NUMBERS = count()
"""Of requests: none comes twice."""
# What an event says, as a span would.
ATTRIBUTES: dict[str, str | int] = {
    "request": "cmpl-0123456789abcdef0123456789abcdef-0",
    "peer": "cmpl-fedcba-0",
    "leg": "prefill",
    "thread": "writer",
    "rank": 1,
    "step": 7,
    "blocks": 64,
    "descriptors": 128,
}
MOST_CLOCKS = 20
MOST_SPANS = 1 / 20


def main() -> int:
    """Print the ratios; with --check, 1 if one is over its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--check", action="store_true", help="exit with 1 if an event is dearer than it may be")
    parser.add_argument("--ids", choices=("keep", "hash", "drop"), default="keep", help="how request ids are written")
    given = parser.parse_args()
    with recording(given.ids) as recorder:
        rounds = [one_round(recorder) for _ in range(given.rounds)]
    events = ("event", "event, many fields", "event, new request")
    print(f"clock: {statistics.median(each['clock'] for each in rounds):.0f} ns")
    for name in (*events, "switched off", "bare span", "span"):
        if name in rounds[0]:
            print(row(name, rounds))
    over = [name for name in events if ratio(rounds, name, "clock") > MOST_CLOCKS]
    over += [name for name in events if "span" in rounds[0] and ratio(rounds, name, "span") > MOST_SPANS]
    print(f"limits: {MOST_CLOCKS} x clock, 1/{1 / MOST_SPANS:.0f} of a span; {', '.join(over) or 'none'} over")
    return int(given.check and bool(over))


@contextmanager
def recording(ids: str) -> Iterator[ModuleType]:
    """The recorder, writing to shared memory that is given back afterwards."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as made:
        os.environ |= {"KVSCOPE_RUN_DIR": made, "KVSCOPE_IDS": ids}
        from kvscope.probe import recorder

        yield recorder


def one_round(recorder: ModuleType) -> dict[str, float]:
    """ns per call of each thing."""
    from kvscope.probe import control

    run_dir = Path(os.environ["KVSCOPE_RUN_DIR"])
    found = {name: timed(calls, run) for name, calls, run in subjects(recorder)}
    control.switch(run_dir, None, on=False)
    found["switched off"] = timed(CALLS, lambda calls: few_fields(recorder, calls))
    control.switch(run_dir, None, on=True)
    return found


def subjects(recorder: ModuleType) -> Iterator[tuple[str, int, Callable[[int], None]]]:
    """(name, calls, what makes that many)."""
    yield "clock", CALLS, read_clock
    yield "event", CALLS, lambda calls: few_fields(recorder, calls)
    yield "event, many fields", CALLS, lambda calls: many_fields(recorder, calls)
    made = [f"cmpl-0123456789abcdef0123456789abcdef-0-{next(NUMBERS) ^ 0xABCDEF01:08x}" for _ in range(NEW_REQUESTS)]
    yield "event, new request", NEW_REQUESTS * EVENTS_PER_REQUEST, lambda _calls: new_requests(recorder, made)
    try:
        from opentelemetry.sdk import trace
        from opentelemetry.sdk.trace import export
    except ImportError:
        print("no OpenTelemetry SDK here: pip install opentelemetry-sdk to compare with a span", file=sys.stderr)
        return

    class Discarding(export.SpanExporter):
        def export(self, spans: Sequence[trace.ReadableSpan]) -> export.SpanExportResult:
            return export.SpanExportResult.SUCCESS

    provider = trace.TracerProvider(shutdown_on_exit=False)
    yield "bare span", SPANS, lambda calls: spans(provider.get_tracer("benchmark"), calls, {})
    # As applications use it; the exporter's own thread is not in the figure, nor is any sending.
    provider.add_span_processor(export.BatchSpanProcessor(Discarding(), max_queue_size=8 * SPANS))
    yield "span", SPANS, lambda calls: spans(provider.get_tracer("benchmark"), calls, ATTRIBUTES)
    provider.shutdown()


def spans(tracer: Tracer, calls: int, attributes: dict[str, str | int]) -> None:
    """Start and end spans."""
    for _ in range(calls):
        tracer.start_span("posted", attributes=attributes).end()


def read_clock(calls: int) -> None:
    """The unit."""
    for _ in range(calls):
        time.monotonic_ns()


def few_fields(recorder: ModuleType, calls: int) -> None:
    """The plainest event."""
    record, request = recorder.record, "cmpl-0123456789abcdef0123456789abcdef-0"
    for _ in range(calls):
        record(27, 2, request)


def many_fields(recorder: ModuleType, calls: int) -> None:
    """About the fullest one."""
    record, request, peer = recorder.record, "cmpl-0123456789abcdef0123456789abcdef-0", "cmpl-fedcba-0"
    for number in range(calls):
        record(20, 1, request, 0, 64, number, 7, peer=peer, state=1, rank=1, peer_rank=1, step=number)


def new_requests(recorder: ModuleType, made: list[str]) -> None:
    """As in an engine: it has made a request's id, which is hashed and written once, then used a few times."""
    record = recorder.record
    for request in made:
        for _ in range(EVENTS_PER_REQUEST):
            record(27, 2, request)


def timed(calls: int, run: Callable[[int], None]) -> float:
    """ns of CPU time per call, garbage collection held back; the loop's own few ns count as the call's."""
    gc.collect()
    gc.disable()
    begun = time.thread_time_ns()
    run(calls)
    taken = time.thread_time_ns() - begun
    gc.enable()
    return taken / calls


def ratio(rounds: list[dict[str, float]], name: str, unit: str) -> float:
    """Median over the rounds of one thing's cost in units of another."""
    return statistics.median(each[name] / each[unit] for each in rounds)


def row(name: str, rounds: list[dict[str, float]]) -> str:
    """A line of the table."""
    clocks = [each[name] / each["clock"] for each in rounds]
    line = f"{name:<20}{statistics.median(each[name] for each in rounds):>8.0f} ns"
    line += f"{ratio(rounds, name, 'clock'):>8.1f} x clock ({min(clocks):.1f} to {max(clocks):.1f})"
    if "span" in rounds[0] and "span" not in name:
        spans, bare = (sorted(each[unit] / each[name] for each in rounds) for unit in ("span", "bare span"))
        line += f"   1/{statistics.median(spans):.1f} of a span (1/{spans[0]:.1f} to 1/{spans[-1]:.1f})"
        line += f", 1/{statistics.median(bare):.1f} of a bare one"
    return line


if __name__ == "__main__":
    sys.exit(main())

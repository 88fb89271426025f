"""How fast requests become spans, what that takes of memory, and what OpenTelemetry's SDK would take for the same.

    python benchmarks/otlp_rate.py [--events 1000000] [--rounds 7]

The recording is one of docs/pictures, laid over itself six times and repeated. A process of its own exports it, join
and all, to a receiver on loopback that takes everything and looks at nothing. The comparison with the SDK is made
within one process, in turns: the same requests, the same spans and attributes, nothing sent by either; what the SDK's
exporter would do yet, making messages and serializing them, is not in its figure.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from statistics import median

import numpy as np
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context
from replay_rate import _by_second, _laid, _picture, _salted  # type: ignore[import-not-found] # a script beside it

from kvscope.core.critical_path import split
from kvscope.export.otlp.batch import Gathered
from kvscope.export.otlp.contexts import Contexts
from kvscope.export.otlp.trees import Trees
from kvscope.model.splits import Splits
from kvscope.model.wallclock import WallClock
from kvscope.probe.recording import Writer
from kvscope.sources.opening import open_all

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "push-early.kvs"
COPIES = 6
PLAIN = (str, int, float, bool)

EXPORTER = """
import resource, sys, time
from kvscope.cli import main
code = main(["export", sys.argv[1], "--otlp", sys.argv[2]])
print(f"{time.process_time():.2f} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} {code}")
"""


def main() -> None:
    """Make the recording, export it, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    compare(given.rounds)
    with tempfile.TemporaryDirectory() as folder, receiver() as (url, received):
        path = Path(folder) / "long.kvs"
        events = write(path, given.events)
        print(f"{events:,} events, {path.stat().st_size / 1e6:.0f} MB", flush=True)
        words = [sys.executable, "-c", EXPORTER, str(path), url]
        begun = time.monotonic()
        done = subprocess.run(words, check=True, capture_output=True, text=True)
        took = time.monotonic() - begun
        cpu, memory, code = done.stdout.split()
        assert code == "0", done.stderr
        spans = int(done.stderr.splitlines()[-1].split()[0].replace(",", ""))
        print(done.stderr.splitlines()[-1])
        print(f"{took:.0f} s, {cpu} s of CPU: {spans / float(cpu):,.0f} spans/s, {events / float(cpu):,.0f} events/s")
        print(f"{received[0] / 1e6:.0f} MB sent in {received[1]} requests; at most {memory} MB of memory")


def compare(rounds: int) -> None:
    """Time per span of ours and of the SDK, in turns."""
    events = open_all([PICTURE], None).events
    clock = WallClock()
    clock.take(events)
    splits = split(events)
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(_ours(splits, clock))
        theirs.append(_sdks(splits, clock))
    ratios = [their / our for our, their in zip(ours, theirs, strict=True)]
    print(f"ours {_spread([1e6 * each for each in ours])} us a span, serialized; the join left out")
    print(f"SDK  {_spread([1e6 * each for each in theirs])} us a span, handed to an exporter that drops it")
    print(f"     {_spread(ratios)} times ours")


def _spread(values: list[float]) -> str:
    return f"{median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def _ours(splits: Splits, clock: WallClock) -> float:
    begun = time.process_time()
    gathered, trees = Gathered(), Trees(clock, Contexts())
    for at in range(0, len(splits), 64):
        trees.grow(splits.select(np.arange(at, min(at + 64, len(splits)))), gathered)
    spans = len(gathered)
    gathered.taken().SerializeToString()
    return (time.process_time() - begun) / spans


def _sdks(splits: Splits, clock: WallClock) -> float:
    """What our spans hold, given to the SDK one by one."""
    gathered = Gathered()
    Trees(clock, Contexts()).grow(splits, gathered)
    told = [
        (
            set_span_in_context(NonRecordingSpan(_parent(span))),
            span.name,
            {each.key: getattr(each.value, each.value.WhichOneof("value") or "") for each in span.attributes},
            (span.start_time_unix_nano, span.end_time_unix_nano),
        )
        for group in gathered.taken().resource_spans
        for span in group.scope_spans[0].spans
    ]
    for _, _, attributes, _ in told:  # lists are its own business
        attributes.update({name: str(value) for name, value in attributes.items() if not isinstance(value, PLAIN)})
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Nowhere(), max_queue_size=2 * len(told)))
    tracer = provider.get_tracer("benchmark")
    begun = time.process_time()
    for parent, name, attributes, (start, end) in told:
        tracer.start_span(name, parent, attributes=attributes, start_time=start).end(end)
    provider.shutdown()
    return (time.process_time() - begun) / len(told)


class Nowhere(SpanExporter):
    """Takes what the SDK hands on, and drops it."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Say that it went well."""
        return SpanExportResult.SUCCESS


def _parent(span: Span) -> SpanContext:
    trace, parent = (int.from_bytes(each, "big") for each in (span.trace_id, span.parent_span_id or span.span_id))
    return SpanContext(trace, parent, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def write(path: Path, least: int) -> int:
    """A recording of at least so many events, all of whose requests join; returns how many."""
    infos, records, texts = _picture()
    times = [rows["t"] for rows in records.values()]
    span = int(max(t.max() for t in times)) - int(min(t.min() for t in times))
    total, lap = 0, 0
    with open(path, "wb") as file:
        writer = Writer(file)
        for process, info in infos.items():
            writer.process(process, info)
        writer.texts(texts)
        while total < least:
            salts = [np.uint64(lap * COPIES + copy + 1) for copy in range(COPIES)]
            for salt in salts:
                writer.texts([(_salted(key, salt), _renamed(text, int(salt))) for key, text in texts])
            laid = {key: _laid(rows, lap * span, span, salts) for key, rows in records.items()}
            for (process, thread), rows in _by_second(laid):
                writer.records(process, thread, rows.tobytes())
                total += len(rows)
            lap += 1
        writer.end({})
    return total


def _renamed(text: str, salt: int) -> str:
    """Another request id, alike for both engines and the router."""
    return re.sub(r"(?<![0-9a-f])[0-9a-f]{32}", lambda found: f"{salt}x{found[0]}", text)


@contextmanager
def receiver() -> Iterator[tuple[str, list[int]]]:
    """Its address, and bytes and requests received."""
    received = [0, 0]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            received[0] += len(self.rfile.read(int(self.headers["Content-Length"])))
            received[1] += 1
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


if __name__ == "__main__":
    main()

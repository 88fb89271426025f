"""How fast a recording becomes a trace for Perfetto, what that takes of memory, and what Perfetto's own builder takes.

    python benchmarks/perfetto_rate.py [--events 1000000] [--rounds 7]

The recording is one of docs/pictures, repeated: every lap with ids of its own. A process of its own exports it, join
and all. The comparison with the builder is made within one process, in turns: slices with five arguments and a flow.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np
from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder
from replay_rate import _picture, _salted  # type: ignore[import-not-found] # a script beside this one

from kvscope.core.stream import SECOND
from kvscope.export.perfetto import fields
from kvscope.export.perfetto.packets import Arg, Look, Packets
from kvscope.probe.recording import Writer
from kvscope.probe.vocabulary import MOMENT_CODE, UNKNOWN, VALUES
from kvscope.sources.records import Rows

INSTANTS = (("step", "begin"), ("registration_received", "looked"), ("done_seen", "nixl_start"))
"""Values that are times."""
BATCH = 20_000
ARGS = ("requests", "tokens", "connector_ns", "bytes", "descriptors")

EXPORTER = """
import resource, sys, time
from kvscope.cli import main
code = main(["export", sys.argv[1], "--perfetto", sys.argv[2]])
print(f"{time.process_time():.2f} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} {code}")
"""


def main() -> None:
    """Compare, make the recording, export it, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    compare(given.rounds)
    with tempfile.TemporaryDirectory() as folder:
        path, trace = Path(folder) / "long.kvs", Path(folder) / "long.pftrace"
        events = write(path, given.events)
        print(f"{events:,} events, {path.stat().st_size / 1e6:.0f} MB", flush=True)
        words = [sys.executable, "-c", EXPORTER, str(path), str(trace)]
        done = subprocess.run(words, check=True, capture_output=True, text=True)
        cpu, memory, code = done.stdout.split()
        assert code == "0", done.stderr
        print(done.stderr.splitlines()[-1].replace(str(trace), "a file"))
        print(f"{cpu} s of CPU: {events / float(cpu):,.0f} events/s; at most {memory} MB of memory")


def compare(rounds: int) -> None:
    """Packets per second of ours and of the builder, in turns."""
    rates: dict[str, list[float]] = {"in bulk": [], "by the builder": []}
    for _ in range(rounds):
        for name, write_all in (("in bulk", _in_bulk), ("by the builder", _by_builder)):
            begun = time.process_time()
            write_all()
            rates[name].append(2 * BATCH / (time.process_time() - begun))
    for name, found in rates.items():
        print(f"{name}: {median(found):,.0f} packets/s ({min(found):,.0f} to {max(found):,.0f})")
    ratios = [ours / theirs for ours, theirs in zip(*rates.values(), strict=True)]
    print(f"{median(ratios):.1f} times as fast ({min(ratios):.1f} to {max(ratios):.1f})", flush=True)


def _in_bulk() -> None:
    packets, number = Packets(io.BytesIO().write), np.arange(BATCH)
    args = [Arg(name, number * place) for place, name in enumerate(ARGS)]
    look = Look("step", packets.called("step"), args, flows=number.astype(np.uint64) + np.uint64(1))
    packets.slices(np.full(BATCH, 7, np.uint64), 10**13 + 1000 * number, 10**13 + 1000 * number + 900, look)


def _by_builder() -> None:
    builder = StreamingTraceProtoBuilder(io.BytesIO())
    for number in range(BATCH):
        for kind in (fields.BEGIN, fields.END):
            packet = builder.create_packet()
            packet.trusted_packet_sequence_id, packet.sequence_flags = 1, fields.NEEDED
            packet.timestamp = 10**13 + 1000 * number + 900 * (kind == fields.END)
            event = packet.track_event
            event.type, event.track_uuid = kind, 7
            event.category_iids.append(1)
            if kind == fields.BEGIN:
                event.name_iid = 1
                event.flow_ids.append(number + 1)
                for place in range(len(ARGS)):
                    annotation = event.debug_annotations.add()
                    annotation.name_iid, annotation.int_value = place + 1, number * place
            builder.write_packet(packet)


def write(path: Path, least: int) -> int:
    """A recording of at least so many events; returns how many."""
    infos, records, texts = _picture()
    first, last = (edge(int(edge(rows["t"].tolist())) for rows in records.values()) for edge in (min, max))
    total, lap = 0, 0
    with open(path, "wb") as file:
        writer = Writer(file)
        for process, info in infos.items():
            writer.process(process, info)
        while total < least:
            salt = np.uint64(lap)
            writer.texts([(_salted(key, salt), _renamed(text, lap)) for key, text in texts])
            for (process, thread), rows in records.items():
                for part in _parts(_laid(rows, lap * (last - first + SECOND), salt)):
                    writer.records(process, thread, part.tobytes())
                total += len(rows)
            lap += 1
        writer.end({})
    return total


def _renamed(text: str, lap: int) -> str:
    """The id that a router gives is part of those of the engines."""
    head = "cmpl-" if text.startswith("cmpl-") else ""
    return f"{head}{lap}x{text.removeprefix(head)}" if lap else text


def _laid(rows: Rows, shift: int, salt: np.uint64) -> Rows:
    """The rows of one lap: later, and of other requests."""
    rows = rows.copy()
    rows["t"] += shift
    for name in ("request", "peer"):
        rows[name] ^= np.where(rows[name] != 0, salt << np.uint64(20), np.uint64(0))
    for moment, value in INSTANTS:
        column = rows["values"][:, VALUES[moment].index(value)]
        mine = (rows["moment"] == MOMENT_CODE[moment]) & (column != UNKNOWN)
        column[mine] += shift
    return rows


def _parts(rows: Rows) -> Iterator[Rows]:
    return (rows[at : at + 1000] for at in range(0, len(rows), 1000))


if __name__ == "__main__":
    main()

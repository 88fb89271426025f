"""How fast a recording is made fit to be given away, the memory that takes, and what hidden ids cost while recording.

    python benchmarks/share_rate.py [--minutes 170] [--copies 6] [--key]

The recording is one of docs/pictures, laid over itself `copies` times and repeated: 164 events a second each, with ids
of their own; at the defaults 10 million events.
"""

from __future__ import annotations

import argparse
import io
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from replay_rate import write  # type: ignore[import-not-found] # a script beside this one

from kvscope.probe.hiding import hiding
from kvscope.probe.ids import HASH, Ids
from kvscope.probe.recording import Part, ProcessPart, RecordsPart, TextsPart, Writer, parts

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "push-early.kvs"
ROUNDS = 9

SHARER = """
import resource, sys, time
from pathlib import Path
from kvscope.sharing.share import Wishes, share

begun = time.process_time()
shared = share([sys.argv[1]], Path(sys.argv[2]), Wishes(secret=b"k" * 32 if sys.argv[3] == "True" else None))
took = time.process_time() - begun
print(f"shared in {took:.0f} s of CPU: {shared.records / took:,.0f} events a second")
before = Path(sys.argv[1]).stat().st_size
print(f"{shared.size / shared.records:.1f} bytes an event, {before / shared.records:.1f} before")
print(f"at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
"""


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=170)
    parser.add_argument("--copies", type=int, default=6)
    parser.add_argument("--key", action="store_true", help="with a key of one's own")
    given = parser.parse_args()
    print_hiding()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.kvs"
        events = write(path, given.minutes * 60, given.copies)
        print(f"{events:,} events, {path.stat().st_size / 1e6:.0f} MB", flush=True)
        command = [sys.executable, "-c", SHARER, str(path), str(Path(folder) / "shared.kvs"), str(given.key)]
        subprocess.run(command, check=True)


def print_hiding() -> None:
    """What writing a recording takes with ids hidden, of what it takes with ids as they are; round by round."""
    with open(PICTURE, "rb") as file:
        found = list(parts(file))
    events = sum(len(part.raw) // 112 for part in found if isinstance(part, RecordsPart))
    kept, hidden = [], []
    for _ in range(ROUNDS):
        kept.append(seconds(found, None))
        hidden.append(seconds(found, Ids(b"k" * 32, HASH)))
    ratios = sorted(one / other for one, other in zip(hidden, kept, strict=True))
    print(
        f"recording with ids hidden takes {statistics.median(ratios):.2f} times ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        f" as long: {statistics.median(hidden) / events * 1e6:.1f} us of CPU an event"
    )


def seconds(found: list[Part], ids: Ids | None) -> float:
    """CPU time to write it all."""
    begun = time.process_time()
    writer = hiding(Writer(io.BytesIO()), ids)
    for part in found:
        match part:
            case ProcessPart(process, info):
                writer.process(process, info)
            case RecordsPart(process, thread, raw):
                writer.records(process, thread, raw)
            case TextsPart(pairs):
                writer.texts(pairs)
    return time.process_time() - begun


if __name__ == "__main__":
    main()

"""A process that records and whose threads do known things at known times; what they did is told line by line.

profiled_process.py ENGINE LOG [spinner]

Its main thread (core) sleeps. Its writer does, in turn and for random times, `computes`, `rests`, `sorts`, `rests`, and
writes "NAME BEGIN END" of each into LOG, in ns of the monotonic clock. `spinner`: a further thread that never lets go
of the GIL on its own.
"""

from __future__ import annotations

import random
import sys
import threading
import time

from kvscope.probe import recorder
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE

SHORTEST_NS, LONGEST_NS = 5_000_000, 40_000_000


def mark() -> None:
    """Have the calling thread record, so that it is known."""
    recorder.record(MOMENT_CODE["load"], LEG_CODE["engine"], None)


def spin(ns: int) -> None:
    end, turns = time.monotonic_ns() + ns, 0
    while time.monotonic_ns() < end:
        turns += 1
        turns ^= 1
        turns += 2


def computes(ns: int) -> None:
    spin(ns)


def sorts(ns: int) -> None:
    spin(ns)


def rests(ns: int) -> None:
    threading.Event().wait(ns / 1e9)


def write(path: str) -> None:
    mark()
    with open(path, "w", encoding="utf-8", buffering=1) as log:
        while True:
            for work in (computes, rests, sorts, rests):
                ns = random.randint(SHORTEST_NS, LONGEST_NS)
                begin = time.monotonic_ns()
                work(ns)
                log.write(f"{work.__name__} {begin} {time.monotonic_ns()}\n")


def main() -> None:
    engine, path, *more = sys.argv[1:]
    recorder.set_main_role("core")
    recorder.describe({"engine": engine, "engine_id": f"{engine}-1"})
    mark()
    threading.Thread(target=write, args=(path,), name="nixl-push-writer-0", daemon=True).start()
    if "spinner" in more:
        threading.Thread(target=spin, args=(10**18,), name="spinner", daemon=True).start()
    print("ready", flush=True)
    for _ in sys.stdin:
        break


main()

"""Two processes that write what a prefill and a decode engine write, at a given rate, without being engines.

    python benchmarks/writing_engines.py RUN_DIR --rate 1000 --seconds 30

Events go through the probe into real rings, at the times that a push takes: a prompt of 100 ms, an answer of a
second. Each process prints `request ns` for requests whose id holds `mark`: when its first moment was recorded.
However this one is ended, they end with it.
"""

from __future__ import annotations

import argparse
import heapq
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE, STATE_CODE, UNKNOWN

MARKED = 20
"""One request in so many is a marked one."""

VALUES = {"queued": (512,), "computed": (512, 16), "reserved": (16,), "finished": (50, 21_000_000)}

# Offsets in ms; what each engine stamps for one push that is dispatched early.
PREFILL = (
    ("arrived", 0), ("taken", 1), ("queued", 2), ("scheduled", 5), ("computed", 105), ("handed", 107),
    ("staged", 108), ("matched", 109), ("post_begun", 109), ("prepared", 110), ("posted", 111), ("pending_seen", 118),
    ("done_seen", 120), ("released", 130),
)  # fmt: skip
DECODE = (
    ("arrived", 2), ("taken", 3), ("queued", 4), ("reserved", 5), ("handed", 6), ("registration_sent", 6),
    ("notified", 121), ("noticed", 122), ("ready", 123), ("scheduled", 126), ("first_token", 136), ("finished", 1136),
    ("released", 1137),
)  # fmt: skip
PER_REQUEST = len(PREFILL) + len(DECODE) + 1
STEP_MS = 20


def main() -> int:
    """Run both engines, or be one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run_dir")
    parser.add_argument("--rate", type=float, default=1000, help="events per second of both together")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--engine", choices=("p0", "d0"))
    parser.add_argument("--begin", type=float, default=0.0, help="monotonic seconds at which both begin")
    given = parser.parse_args()
    os.environ["KVSCOPE_RUN_DIR"] = given.run_dir
    if given.engine:
        write(Engine(given.engine), given.rate, given.seconds, given.begin)
        return 0
    words = [sys.executable, __file__, given.run_dir, "--rate", str(given.rate), "--seconds", str(given.seconds)]
    words += ["--begin", str(time.monotonic() + 0.5), "--engine"]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    both = [subprocess.Popen([*words, engine]) for engine in ("p0", "d0")]
    try:
        return max(process.wait() for process in both)
    finally:
        for process in both:
            process.terminate()
            process.wait()


class Engine:
    """Records moments, as one engine."""

    def __init__(self, name: str) -> None:
        from kvscope.probe import recorder

        recorder.describe({"engine": name, "engine_id": f"id-{name}", "kv_blocks": 4096})
        self.name = name
        self._record = recorder.record
        self._leg = LEG_CODE["prefill" if name == "p0" else "decode"]

    def stamp(self, moment: str, number: int) -> None:
        """A moment of a request."""
        own, peer = names(number, self.name)
        values = (time.time_ns(),) if moment == "arrived" else VALUES.get(moment, ())
        told = peer if moment == "matched" else None
        state = STATE_CODE["PROC"] if moment == "posted" else 0
        self._record(MOMENT_CODE[moment], self._leg, own, 0, *values, peer=told, state=state)
        if moment == "arrived" and number % MARKED == 0:
            print(own, time.monotonic_ns(), flush=True)

    def receive(self, number: int) -> None:
        """A registration: it carries decode's id."""
        own, _ = names(number, "d0")
        self._record(MOMENT_CODE["registration_received"], self._leg, own, 0, UNKNOWN, 16)

    def step(self) -> None:
        """A step that ends now."""
        now = time.monotonic_ns()
        self._record(MOMENT_CODE["step"], LEG_CODE["engine"], None, now, now - STEP_MS * 1_000_000, 4, 512, 100_000, 0)


def write(engine: Engine, rate: float, seconds: float, begin: float) -> None:
    """Record each moment when it is due, for as long as whoever started this is there."""
    starter = os.getppid()
    for at, job in jobs(engine, rate, seconds):
        if os.getppid() != starter:
            return
        wait = begin + at - time.monotonic()
        if wait > 0.002:
            time.sleep(wait)
        job()


def names(number: int, engine: str) -> tuple[str, str]:
    """(the engine's own id of a request, its peer's)."""
    mark = "mark" if number % MARKED == 0 else "load"
    ids = {"p0": f"cmpl-{mark}{number:08d}-0-aaaaaaaa", "d0": f"cmpl-{mark}{number:08d}-0-bbbbbbbb"}
    return ids[engine], ids["d0" if engine == "p0" else "p0"]


def jobs(engine: Engine, rate: float, seconds: float) -> Iterator[tuple[float, Callable[[], None]]]:
    """(seconds since the begin, what to record), in order, holding no more than what is under way."""
    apart = PER_REQUEST / rate
    due: list[tuple[float, int, Callable[[], None]]] = []
    count = steps = 0
    while True:
        while count * apart < seconds and (not due or count * apart <= due[0][0]):
            for order, (ms, job) in enumerate(moments(engine, count)):
                heapq.heappush(due, (count * apart + ms / 1e3, count * 32 + order, job))
            count += 1
        if not due:
            return
        while steps * STEP_MS / 1e3 <= due[0][0]:
            yield steps * STEP_MS / 1e3, engine.step
            steps += 1
        at, _, job = heapq.heappop(due)
        yield at, job


def moments(engine: Engine, number: int) -> Iterator[tuple[float, Callable[[], None]]]:
    """(ms since the request came, what to record) of one request."""
    for moment, ms in PREFILL if engine.name == "p0" else DECODE:
        yield ms, partial(engine.stamp, moment, number)
    if engine.name == "p0":
        yield 7, partial(engine.receive, number)


if __name__ == "__main__":
    sys.exit(main())

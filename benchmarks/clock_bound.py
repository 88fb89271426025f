"""How well two clocks that are hours apart are told by messages between them, over a link with delay, jitter and loss.

The second clock is a time namespace (root only): what it is ahead by is known to the nanosecond. The link is a process
that holds back datagrams: unevenly, in bursts, some for good.

python benchmarks/clock_bound.py [--seconds 20] [--ahead 18000] [--there 5] [--back 2] [--jitter 3] [--loss 0.02]
"""

from __future__ import annotations

import argparse
import ctypes
import heapq
import os
import random
import selectors
import signal
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import numpy as np

from kvscope.core.messages import messages_of_exchanges
from kvscope.core.offsets import DRIFT, estimate
from kvscope.model.exchange import Exchange

SECOND, MS = 1_000_000_000, 1_000_000
CLONE_NEWTIME = 0x80
ASKED = struct.Struct("<qqqq")
EVERY_S = 0.01
HERE, THERE = "here", "there"


def bound_socket() -> socket.socket:
    """A datagram socket at a port that the system gives."""
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.bind(("127.0.0.1", 0))
    return found


def started(run: Callable[[], NoReturn]) -> int:
    """The id of a process that runs it."""
    child = os.fork()
    if child:
        return child
    try:
        run()
    finally:
        os._exit(1)


def ahead_of_us(ns: int, run: Callable[[], NoReturn]) -> NoReturn:
    """Run in a process whose monotonic clock is ahead."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWTIME):
        raise OSError(ctypes.get_errno(), "no time namespace can be made: it takes root")
    Path("/proc/self/timens_offsets").write_text(f"monotonic {ns // SECOND} {ns % SECOND}\n")
    os.waitpid(started(run), 0)
    os._exit(0)


def answer(own: socket.socket) -> NoReturn:
    """Say when each question was received, and when answered, by the clock here."""
    while True:
        data, sender = own.recvfrom(64)
        received = time.monotonic_ns()
        _, sent, _, _ = ASKED.unpack(data)
        own.sendto(ASKED.pack(1, sent, received, time.monotonic_ns()), sender)


def link(near: socket.socket, far: socket.socket, to: tuple[str, int], given: argparse.Namespace) -> NoReturn:
    """Pass datagrams on both ways, late, now and then all of them, some never."""
    rng, waiting, asker = random.Random(1), list[tuple[float, int, bytes]](), ("", 0)
    chosen = selectors.DefaultSelector()
    chosen.register(near, selectors.EVENT_READ, 0)
    chosen.register(far, selectors.EVENT_READ, 1)
    while True:
        now = time.monotonic()
        ready = chosen.select(max(0.0, waiting[0][0] - now) if waiting else None)
        now = time.monotonic()
        for key, _ in ready:
            data, sender = key.fileobj.recvfrom(64)  # type: ignore[union-attr]
            back = key.data
            asker = asker if back else sender
            burst = 0.04 * (int(now) % 7 == 3 + back)
            late = (given.back if back else given.there) / 1e3 + rng.paretovariate(1.5) * given.jitter / 1e4 + burst
            if rng.random() >= given.loss:
                heapq.heappush(waiting, (now + late, back, data))
        while waiting and waiting[0][0] <= now:
            _, back, data = heapq.heappop(waiting)
            (near if back else far).sendto(data, asker if back else to)


def exchanges(near: tuple[str, int], seconds: float) -> list[Exchange]:
    """Ask again and again; what came back, with all four instants."""
    own, found = bound_socket(), list[Exchange]()
    end = time.monotonic() + seconds
    own.settimeout(EVERY_S)
    asked = 0.0
    while time.monotonic() < end:
        if time.monotonic() - asked >= EVERY_S:
            asked = time.monotonic()
            own.sendto(ASKED.pack(0, time.monotonic_ns(), 0, 0), near)
        try:
            data = own.recv(64)
        except TimeoutError:
            continue
        back = time.monotonic_ns()
        _, sent, received, replied = ASKED.unpack(data)
        found.append(Exchange(HERE, THERE, sent, received, replied, back))
    return found


def main() -> None:
    """Run it and print what was known when."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("seconds", 20.0), ("ahead", 18_000.000123456), ("there", 5.0), ("back", 2.0)):
        parser.add_argument(f"--{name}", type=float, default=default)
    parser.add_argument("--jitter", type=float, default=3.0, help="ms")
    parser.add_argument("--loss", type=float, default=0.02, help="share")
    given = parser.parse_args()
    truth = round(given.ahead * SECOND)
    answering, near, far = bound_socket(), bound_socket(), bound_socket()
    running = [started(lambda: ahead_of_us(truth, lambda: answer(answering)))]
    running.append(started(lambda: link(near, far, answering.getsockname(), given)))
    try:
        found = exchanges(near.getsockname(), given.seconds)
    finally:
        for child in running:
            for pid in (*children(child), child):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(child, 0)
    tell(found, truth)


def children(pid: int) -> list[int]:
    """Ids of the processes that it started."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def tell(found: list[Exchange], truth: int) -> None:
    """Of each second: whether the truth lies within the bound, and what the bound is made of."""
    if not found:
        print("nothing was answered: a time namespace takes root, and a kernel that has them")
        return
    (messages,) = messages_of_exchanges(found).values()
    offset = estimate(messages)
    t = np.arange(found[0].sent, found[-1].back, SECOND // 4)
    low, high, known = offset.at(t)
    bound = (high - low) / 2
    trips = np.array([each.round_trip_ns for each in found])
    sent = np.array([each.sent for each in found])
    near = np.array([trips[np.abs(sent - at) <= SECOND].min(initial=2**62) for at in t.tolist()])
    inside = int(((low <= truth) & (truth <= high) & known).sum())
    least, middle = trips.min() / MS, np.median(trips) / MS
    print(f"{len(found):,} exchanges, round trips of {least:.2f} ms at least, {middle:.2f} at p50")
    print(f"offset found within the bound in {inside} of {int(known.sum())} windows; {offset.steps} steps")
    print(f"bound {np.median(bound) / MS:.3f} ms at p50, {bound.max() / MS:.3f} at most")
    within = int((bound <= near / 2 + DRIFT * SECOND + 10).sum())
    print(f"not above half the smallest round trip within a second, and drift, in {within} of {len(t)} windows")
    error = np.abs(low + high - 2 * truth) / 2
    print(f"the middle is off by {np.median(error) / MS:.3f} ms at p50, {error.max() / MS:.3f} at most")


if __name__ == "__main__":
    main()

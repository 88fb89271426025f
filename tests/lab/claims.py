"""What must hold of every observation of a healthy pair, whatever the connector, the router and the load."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict

import numpy as np

from kvscope.probe.vocabulary import MOMENT_CODE, UNKNOWN, VALUES
from tests.lab.observation import Observation

MS = 1_000_000

# What HTTP adds at both ends, ms at the median: on a quiet machine, and where others wait for the same cores. Those may
# be the pair's own, once requests queue: half of them take longer than UNLOADED_MS then.
CLIENT_QUIET, CLIENT_BUSY, UNLOADED_MS = 15.0, 150.0, 1000.0

# vLLM's queue time ends where the step begins that admits a request, kvscope's where it is admitted: ms a request.
QUEUE_QUIET, QUEUE_BUSY = 0.5, 2.0

LEAST_REQUESTS = 200

# NIXL's stopwatch: its times are cut to whole microseconds, each of two; its rate was seen 28 to 330 ppm off, and more
# where the machine was busy when a process started; within a process it drifts by less than RATE_RESOLUTION.
WHOLE_US, RATE_MOST, RATE_RESOLUTION = 2000, 0.02, 0.001


def all_complete(seen: Observation, shape: str) -> None:
    """Every request that was answered is joined, whole and of the shape expected; nothing is left over or astray."""
    assert len(seen.pairs) >= LEAST_REQUESTS
    states = {(split.shape, split.state.value, split.missing) for split in seen.sent}
    assert states == {(shape, "complete", ())}
    counted = {name: count for name, count in asdict(seen.splits.tally).items() if count}
    assert set(counted) <= {"events", "earlier"}, counted


def adds_up(seen: Observation) -> None:
    """The stages on the path are TTFT, to the nanosecond, without a gap or an overlap."""
    for _, split in seen.pairs:
        assert split.ttft_ns is not None
        assert sum(span.ns for span in split.path) == split.ttft_ns
        assert sum(split.exposed.values()) == split.ttft_ns
        assert all(one.end == two.begin for one, two in zip(split.path, split.path[1:], strict=False))


def explains_nearly_all(seen: Observation) -> None:
    """`unattributed` stays near zero."""
    shares = [split.exposed.get("unattributed", 0) / split.ttft_ns for _, split in seen.pairs if split.ttft_ns]
    assert np.median(shares) <= 0.01
    assert np.quantile(shares, 0.99) <= 0.05


def agrees_with_the_client(seen: Observation) -> None:
    """The client sees what kvscope says and HTTP at both ends on top, never less."""
    excess = np.array([(record.ttft_ns or 0) - (split.ttft_ns or 0) for record, split in seen.pairs]) / MS
    ttft = np.array([split.ttft_ns or 0 for _, split in seen.pairs]) / MS
    low, median, high = np.quantile(excess, (0.05, 0.5, 0.95))
    print(f"TTFT median {np.median(ttft):.0f} ms; the client's excess {low:.1f} / {median:.1f} / {high:.1f} ms")
    assert excess.min() >= 0
    unloaded = np.median(ttft) <= UNLOADED_MS
    assert median <= seen.bystanders.choose(quiet=CLIENT_QUIET if unloaded else CLIENT_BUSY, busy=CLIENT_BUSY)
    assert all(
        record.sent_ns <= (split.origin or 0) and (split.first_token or 0) <= record.token_ns[0]
        for record, split in seen.pairs
    )


def contains_the_library_s_own_times(seen: Observation) -> None:
    """NIXL's start + duration lies between the last poll that found a transfer in flight and the first that found
    it done.

    The library writes whole microseconds, and its stopwatch is a CPU counter that each process calibrates once, in a
    moment in which it may lose its core: so one rate, near 1, must fit all transfers of a process. It notes the start
    and starts the stopwatch in two statements: a thread that loses its core between them has an end that is too early
    by as much, so a few may lie outside on that side: more where others use the machine, and its own threads share two
    cores even where none does.
    """
    rows = seen.events.rows
    of = {name: rows[rows["moment"] == MOMENT_CODE[name]] for name in ("prepared", "pending_seen", "done_seen")}
    assert len(of["done_seen"]) >= len(seen.pairs)
    floor = {_transfer(row): int(row["t"]) for name in ("prepared", "pending_seen") for row in of[name]}
    allowed = seen.bystanders.choose(quiet=0.005, busy=0.02)
    for process in np.unique(of["done_seen"]["process"]):
        done = of["done_seen"][of["done_seen"]["process"] == process]
        bounds = np.array([_rates(row, floor[_transfer(row)]) for row in done])
        rate = stopwatch_rate(bounds, allowed)
        outside = int((bounds[:, 0] > rate + RATE_RESOLUTION).sum())
        print(f"{len(done)} transfers; stopwatch of process {process} {(rate - 1) * 1e6:+.0f} ppm; {outside} outside")
        assert abs(rate - 1) <= RATE_MOST
        assert outside <= allowed * len(done)


def stopwatch_rate(bounds: np.ndarray, allowed: float) -> float:
    """The rate nearest 1 that no transfer forbids by its upper bound, nor more than a share `allowed` by the lower.

    `bounds` (n, 2): by how much a transfer's duration may be multiplied, at least and at most. The upper ones hold
    without exception, so the rate may still be below more than that share of the lower ones.
    """
    least = float(np.quantile(bounds[:, 0], 1 - allowed))
    return min(max(1.0, least), float(bounds[:, 1].min()))


def _rates(row: np.void, floor: int) -> tuple[float, float]:
    """Between what its duration may be multiplied so that the library's own end lies within."""
    start, duration = (int(row["values"][VALUES["done_seen"].index(name)]) for name in ("nixl_start", "nixl_duration"))
    assert start != UNKNOWN
    assert duration > 0
    return (floor - start - WHOLE_US) / duration, (int(row["t"]) - start + WHOLE_US) / duration


def _transfer(row: np.void) -> tuple[int, int, int, int]:
    return int(row["process"]), int(row["request"]), int(row["rank"]), int(row["peer_rank"])


def explains_the_queue_time(seen: Observation) -> None:
    """vLLM's queue time on the decode engine is the sum of the stages that it hides: all that lies on the path
    between D.queued and D.scheduled.

    vLLM stamps the step's begin where kvscope stamps the admission, so kvscope may say a little more.
    """
    hidden: Counter[str] = Counter()
    for split in seen.sent:
        at = {(stamp.leg, stamp.moment): stamp.t for stamp in split.stamps}
        queued, scheduled = at["decode", "queued"], at["decode", "scheduled"]
        for span in split.path:
            hidden[span.stage] += max(0, min(span.end, scheduled) - max(span.begin, queued))
    said = sum(hidden.values()) / 1e9
    beyond = (said - seen.queue_time_s) / seen.queued * 1e3
    shares = ", ".join(f"{stage} {ns / 1e7 / said:.0f} %" for stage, ns in hidden.most_common(4))
    print(f"queue time {seen.queue_time_s:.3f} s; the stages in it {beyond:+.3f} ms a request ({shares}, …)")
    assert len(seen.sent) == seen.queued
    assert 0 <= beyond <= seen.bystanders.choose(quiet=QUEUE_QUIET, busy=QUEUE_BUSY)


def hold(seen: Observation, shape: str) -> None:
    """All of the above."""
    print(f"\n{seen.bystanders}")
    all_complete(seen, shape)
    adds_up(seen)
    explains_nearly_all(seen)
    agrees_with_the_client(seen)
    contains_the_library_s_own_times(seen)
    explains_the_queue_time(seen)

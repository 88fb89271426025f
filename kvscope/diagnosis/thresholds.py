"""Every number that a finding depends on, in one place, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Threshold:
    """A number, and why it is this one."""

    value: float
    unit: str
    reason: str


MS = 1e6

SIGNIFICANT = Threshold(
    4.0, "standard errors",
    "some thirty stages are looked at: at three, a healthy recording in ten would have one that grew by chance",
)  # fmt: skip
CHANGE = Threshold(
    6.0, "standard errors",
    "the instant of a change is the best of hundreds that were tried, so that chance has hundreds of trials",
)  # fmt: skip
GROWN = Threshold(
    0.10, "of the usual TTFT",
    "a tenth is what all coordination may take; what is smaller wakes nobody",
)  # fmt: skip
DOUBLED = Threshold(
    1.0, "of the usual TTFT", "a wait as long as all of it was, and of which the engine says why, needs no mean"
)
GROWN_LEAST = Threshold(5 * MS, "ns", "stages end at the boundaries of steps, which lie some ms apart on every engine")
EXPLAINS = Threshold(
    0.10, "of the excess TTFT",
    "what explains less than a tenth is not why anybody looked, and is noise of the rest",
)  # fmt: skip
ALONE = Threshold(
    0.35, "of TTFT",
    "with nothing to compare with, only what takes a third of the whole is wrong by itself: on small pairs under"
    " bursts `staging` and `poll_gap` took a fifth in health",
)  # fmt: skip
LATE = Threshold(
    0.10, "of TTFT",
    "a tenth is the budget of all coordination: finished blocks that wait for longer use it up alone",
)  # fmt: skip
LATE_LEAST = Threshold(20 * MS, "ns", "answering, dispatch and registration take some 15 ms when nobody is slow")
FEWEST = Threshold(8, "requests", "a mean of fewer is an anecdote: one slow request would be its change")
MOST_OF = Threshold(0.5, "of what it is part of", "a stage is the cause of a wait if it is more than all others of it")
HANGING = Threshold(
    5e9, "ns of silence",
    "five seconds is how long a handshake waits for its peer: who is silent for longer is not waiting for one",
)  # fmt: skip
SILENT = Threshold(
    1.5e9, "ns of silence",
    "an engine that keeps blocks looks all the time and says so twice a second: three times that is no pause",
)  # fmt: skip
HANGING_USUAL = Threshold(5.0, "times the slowest TTFT", "a queue that is five times deeper than ever seen is a hang")
RARE = Threshold(
    0.01, "of requests",
    "an abort, a retry or a refused read in a hundred is a client's life; more is a pattern",
)  # fmt: skip
RARE_LEAST = Threshold(2, "requests", "one is an accident")
UNHANDED = Threshold(0.05, "of requests", "one in twenty computed twice is a twentieth of prefill's work thrown away")
FIRST_CONTACT = Threshold(
    250 * MS, "ns",
    "a handshake and the first post of a pair took up to 150 ms in health on a busy pair of two cores",
)  # fmt: skip
SAME = Threshold(0.25, "of the value", "sizes and counts that differ by less than a quarter are the same")
SLOWER = Threshold(0.5, "of the usual rate", "half of the rate is another transport or a shared link, not a bad day")
NEAR_FULL = Threshold(0.10, "of KV blocks free", "below a tenth the next long prompt may have to wait for blocks")
RESERVED = Threshold(
    0.25, "of decode's blocks",
    "a quarter of decode's cache reserved and empty is one decode engine in four that is paid for and idle",
)  # fmt: skip
STEP = Threshold(
    0.5, "of a step",
    "what waits for the end of a step waits for half of it on average, and for all of it at most",
)  # fmt: skip
CLOCK = Threshold(
    0.01, "of requests", "an order of moments that cannot be, once in a hundred requests, is a clock and not a race"
)
BUSY = Threshold(
    0.8, "of the wait", "an engine that idles for a fifth of the time for which prompts wait is not what they wait for"
)  # fmt: skip
SLOWED = Threshold(
    1.5, "times the usual",
    "a thread without CPU is slow at all that it does, by half and more: one thing alone is another fault",
)  # fmt: skip
SLOWED_LEAST = Threshold(0.5 * MS, "ns at the median", "below that, half as long again is the kernel's scheduler")
TORN = Threshold(
    0.10, "of requests",
    "with one in ten out of order the clocks are apart by more than a stage, and no split is worth showing",
)  # fmt: skip
CLOCK_LEAST = Threshold(
    1 * MS, "ns", "threads of one host that stamp at the same time pass each other by some us; clocks differ by more"
)  # fmt: skip
CROWD = Threshold(2.0, "transfers at once", "with one other beside it on average a link is shared")
RANKS = Threshold(0.3, "of TTFT", "ranks end within a step of each other unless one of them is held up")

TABLE: dict[str, Threshold] = {name: value for name, value in globals().items() if isinstance(value, Threshold)}
"""By name, in this order."""

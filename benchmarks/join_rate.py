"""Events a second through the join and the critical path, on one core, for a recording and live.

python benchmarks/join_rate.py [--requests 40000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kvscope.core.critical_path import split
from kvscope.core.stream import Limits, Stream
from kvscope.model.events import EVENT, Events, Process
from kvscope.probe.recorder import key64
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE, STATE_CODE, UNKNOWN, VALUES

MS = 1_000_000
PREFILL = {"arrived": 0, "taken": 1, "queued": 2, "scheduled": 5, "computed": 105, "handed": 107, "staged": 108}
PREFILL |= {"matched": 108, "post_begun": 108, "prepared": 109, "posted": 110, "pending_seen": 118, "done_seen": 120}
PREFILL |= {"finished": 105, "released": 130}
DECODE = {"arrived": 2, "taken": 3, "queued": 3, "reserved": 4, "handed": 5, "registration_sent": 5, "notified": 121}
DECODE |= {"noticed": 122, "ready": 123, "scheduled": 126, "first_token": 136, "finished": 400, "released": 401}


@dataclass(frozen=True)
class Fleet:
    """Who serves how much."""

    pairs: int = 4
    spacing: int = MS // 5
    """ns between two requests; 5,000 a second: a fleet, not a pair"""
    prompts: tuple[int | None, ...] = (None,)
    """tokens of one request after the other; None: not told"""


def recording(requests: int, fleet: Fleet = Fleet()) -> Events:
    """Pushes over pairs of engines, in the order in which their moments happen, with steps."""
    rng = np.random.default_rng(1)
    parts = [_leg(requests, rng, leg, moments, fleet) for leg, moments in (("prefill", PREFILL), ("decode", DECODE))]
    parts += [_received(requests, rng, fleet), _steps(requests * fleet.spacing // (20 * MS), fleet.pairs)]
    rows = np.concatenate(parts)
    processes = tuple(Process(f"{side}{pair}", f"id-{side}{pair}") for side in "pd" for pair in range(fleet.pairs))
    texts = {key64(process.engine_id): process.engine_id for process in processes}
    for number in range(requests):
        texts[_key(number, 0)], texts[_key(number, 1)] = f"cmpl-{number:x}-0-aaaaaaaa", f"cmpl-{number:x}-0-bbbbbbbb"
    return Events(rows[np.argsort(rows["t"], kind="stable")], processes, texts)


def _key(number: int, side: int) -> int:
    return (number * 2 + side + 1) * 0x9E3779B97F4A7C15 & 0xFFFF_FFFF_FFFF_FFFF


def _keys(requests: int, side: int) -> np.ndarray:
    return (np.arange(requests, dtype=np.uint64) * np.uint64(2) + np.uint64(side + 1)) * np.uint64(0x9E3779B97F4A7C15)


def _rows(requests: int, side: int, pairs: int) -> np.ndarray:
    rows = np.zeros(requests, EVENT)
    rows["values"] = UNKNOWN
    rows["request"], rows["process"] = _keys(requests, side), np.arange(requests) % pairs + side * pairs
    return rows


def _times(requests: int, ms: int, rng: np.random.Generator, spacing: int) -> np.ndarray:
    return np.arange(requests) * spacing + ms * MS + rng.integers(0, MS // 2, requests)


def _leg(requests: int, rng: np.random.Generator, leg: str, moments: dict[str, int], fleet: Fleet) -> np.ndarray:
    parts = []
    for moment, ms in moments.items():
        rows = _rows(requests, int(leg == "decode"), fleet.pairs)
        rows["moment"], rows["leg"] = MOMENT_CODE[moment], LEG_CODE[leg]
        rows["t"] = _times(requests, ms, rng, fleet.spacing)
        rows["state"] = STATE_CODE["PROC"] if moment == "posted" else 0
        if moment == "matched":
            rows["peer"] = _keys(requests, 1)
            names = np.array([key64(f"id-d{pair}") for pair in range(fleet.pairs)], np.uint64).view(np.int64)
            rows["values"][:, VALUES["matched"].index("peer_engine")] = names[np.arange(requests) % fleet.pairs]
        if moment == "queued":
            tokens = np.array([UNKNOWN if each is None else each for each in fleet.prompts])
            rows["values"][:, VALUES["queued"].index("tokens")] = tokens[np.arange(requests) % len(tokens)]
        parts.append(rows)
    return np.concatenate(parts)


def _received(requests: int, rng: np.random.Generator, fleet: Fleet) -> np.ndarray:
    rows = _rows(requests, 1, fleet.pairs)
    rows["process"] -= fleet.pairs
    rows["moment"], rows["leg"] = MOMENT_CODE["registration_received"], LEG_CODE["prefill"]
    rows["t"] = _times(requests, 104, rng, fleet.spacing)
    return rows


def _steps(count: int, pairs: int) -> np.ndarray:
    rows = np.zeros(count * 2 * pairs, EVENT)
    rows["values"] = UNKNOWN
    step, rows["process"] = np.divmod(np.arange(len(rows)), 2 * pairs)
    rows["step"], rows["moment"], rows["leg"] = step + 1, MOMENT_CODE["step"], LEG_CODE["engine"]
    rows["t"] = (step + 1) * 20 * MS
    rows["values"][:, :4] = np.stack((step * 20 * MS, step * 0 + 8, step * 0 + 100, step * 0 + MS), axis=1)
    return rows


def batches(events: Events, size: int) -> list[Events]:
    """The recording as an agent would hand it over: a text with the first event that needs it."""
    named = {key: text for key, text in events.texts.items() if text.startswith("id-")}
    parts, known = [Events(events.rows[:0], events.processes, named)], set[int]()
    for begin in range(0, len(events), size):
        rows = events.rows[begin : begin + size]
        keys = {*rows["request"].tolist(), *rows["peer"].tolist()} - known
        known |= keys
        texts = {key: events.texts[key] for key in keys if key in events.texts}
        parts.append(Events(rows, events.processes, texts))
    return parts


def live(parts: list[Events]) -> int:
    """Feed the batches; returns the requests that came out complete."""
    stream = Stream(Limits())
    given = [splits for part in parts for splits in stream.feed(part)]
    return sum(int(splits.complete.sum()) for splits in (*given, *stream.close()))


def rate(events: Events, rounds: int, run: Callable[[], int]) -> str:
    """Median and spread of the event rate; checks that every request came out."""
    rates = []
    for _ in range(rounds):
        begun = time.process_time()
        requests = run()
        rates.append(len(events) / (time.process_time() - begun))
    low, middle, high = min(rates), statistics.median(rates), max(rates)
    return f"{middle:>12,.0f} events/s  (of {rounds} rounds {low:,.0f} to {high:,.0f}; {requests:,} requests)"


def main() -> None:
    """Print both rates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=2048)
    given = parser.parse_args()
    events = recording(given.requests)
    print(f"{len(events):,} events of {given.requests:,} requests, CPU time of one process")
    print("recording", rate(events, given.rounds, lambda: int(split(events).complete.sum())))
    parts = batches(events, given.batch)
    print("live     ", rate(events, given.rounds, lambda: live(parts)))


if __name__ == "__main__":
    main()

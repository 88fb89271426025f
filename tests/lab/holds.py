"""Requests that the router holds between the legs for nothing, 50 and 200 ms by turns, and what that moves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from kvscope.lab.client import ClientRecord
from kvscope.lab.front import RouterProcess
from kvscope.lab.pair import Pair
from kvscope.model.requests import RequestSplit
from tests.lab.bystanders import Bystanders
from tests.lab.comparison import median_interval
from tests.lab.observation import LIGHT, witness

HOLDS = {"A": 0.0, "A'": 0.0, "50": 50.0, "200": 200.0}
"""ms by turn. Two of them hold nothing: what differs between these is noise."""
ROUNDS = 40

ALONE = replace(LIGHT, requests=1, warm_up=0, input_tokens=((300, 1.0),), output_tokens=2)


@dataclass(frozen=True)
class Held:
    """What came of ROUNDS rounds, each of one request a turn."""

    splits: dict[str, list[RequestSplit]]
    """turn -> its requests, in the order of the rounds"""
    bystanders: Bystanders

    def moved(self, turn: str, stage: str) -> np.ndarray:
        """(rounds,) ms of a stage on the path, beyond what it took in the same round's A."""
        pairs = zip(self.splits[turn], self.splits["A"], strict=True)
        return np.array([held.exposed.get(stage, 0) - other.exposed.get(stage, 0) for held, other in pairs]) / 1e6

    def noise(self, stage: str) -> float:
        """ms by which A and A' may differ at the median."""
        return max(abs(end) for end in median_interval(self.moved("A'", stage)))


def hold_by_turns(pair: Pair, router: RouterProcess) -> Held:
    """Send one request at a time, so that none waits for another. Each round draws the order of its turns."""
    turns: dict[str, str] = {}

    def send() -> Iterator[ClientRecord]:
        yield from pair.load(replace(ALONE, warm_up=3), router.url)
        chance = np.random.default_rng(0)
        for number in range(ROUNDS):
            for turn in chance.permutation(list(HOLDS)).tolist():
                router.control(hold_ms=HOLDS[turn])
                (record,) = pair.load(replace(ALONE, seed=number), router.url)
                turns[record.request] = turn
                yield record

    seen = witness(pair, lambda: list(send()))
    router.control(hold_ms=0.0)
    splits: dict[str, list[RequestSplit]] = {turn: [] for turn in HOLDS}
    for record, split in seen.pairs:
        if record.request in turns:
            splits[turns[record.request]].append(split)
    return Held(splits, seen.bystanders)

"""A real push pair under light and heavy load: what kvscope says of it is true."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kvscope.lab.front import RouterProcess
from kvscope.lab.load import LoadOptions
from kvscope.lab.pair import Pair
from kvscope.model.stages import STAGE
from tests.lab import claims
from tests.lab.observation import LIGHT, LOADS, Observation, observe

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]


@LOADS
def test_early(push_pair: Pair, push_router: RouterProcess, load: LoadOptions) -> None:
    push_router.control(dispatch="early", hold_ms=0.0)
    seen = observe(push_pair, push_router.url, load)
    claims.hold(seen, "push")
    assert _registrations_hidden(seen) > 0.3
    assert all((split.reserved_idle_ns or 0) > 0 for _, split in seen.pairs)
    assert not any(split.knew_peer for _, split in seen.pairs)


@LOADS
def test_sequential(push_pair: Pair, push_router: RouterProcess, load: LoadOptions) -> None:
    push_router.control(dispatch="sequential", hold_ms=0.0)
    seen = observe(push_pair, push_router.url, load)
    claims.hold(seen, "push")
    assert all(split.knew_peer for _, split in seen.pairs)
    exposed = [split.exposed.get("dispatch", 0) > 0 for _, split in seen.pairs]
    assert np.mean(exposed) > 0.7  # the others waited longer for their blocks to reach the writer
    assert _registrations_hidden(seen) < 0.3


def _registrations_hidden(seen: Observation) -> float:
    """Share of the requests whose registration was there before the finished blocks were."""
    return float(np.mean([split.hidden.get("registration_flight", 0) > 0 for _, split in seen.pairs]))


def test_a_hold_between_the_legs_moves_dispatch_and_nothing_else(push_pair: Pair, push_router: RouterProcess) -> None:
    """One request at a time, so that nothing else waits; holds take turns, two of them being none (A and A')."""
    push_router.control(dispatch="sequential")
    one_by_one = replace(LIGHT, requests=8, rate=1.6, arrivals="fixed", input_tokens=((300, 1.0),), output_tokens=2)
    seen: dict[str, list[Observation]] = {"A": [], "50": [], "200": [], "A'": []}
    for _ in range(4):
        for name, rounds in seen.items():
            push_router.control(hold_ms=float(name) if name.isdigit() else 0.0)
            rounds.append(observe(push_pair, push_router.url, one_by_one))
    push_router.control(hold_ms=0.0)
    medians = {name: _medians(rounds) for name, rounds in seen.items()}
    print("\ndispatch, ms:", {name: round(stages["dispatch"], 2) for name, stages in medians.items()})
    base = {stage: (medians["A"][stage] + medians["A'"][stage]) / 2 for stage in STAGE}
    noise = {stage: abs(medians["A"][stage] - medians["A'"][stage]) for stage in STAGE}
    for hold in (50, 200):
        moved = {stage: medians[str(hold)][stage] - base[stage] for stage in STAGE}
        assert abs(moved.pop("dispatch") - hold) <= 2 + noise["dispatch"]
        beyond = {stage: by for stage, by in moved.items() if abs(by) > max(3.0, 3 * noise[stage], 0.1 * base[stage])}
        assert not beyond, (beyond, noise)


def _medians(rounds: list[Observation]) -> dict[str, float]:
    splits = [split for seen in rounds for _, split in seen.pairs]
    return {stage: float(np.median([split.exposed.get(stage, 0) for split in splits])) / 1e6 for stage in STAGE}

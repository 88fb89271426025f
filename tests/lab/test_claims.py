"""What the claims on real pairs take for one stopwatch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lab.claims import RATE_RESOLUTION, stopwatch_rate

DURATIONS = np.linspace(1e6, 1e8, 400)


def bounds(rate: float, late_ns: float = 5e6) -> np.ndarray:
    """Of transfers that a stopwatch of that rate timed, seen within `late_ns` before and after their ends."""
    chance = np.random.default_rng(3).uniform(0, late_ns, (2, len(DURATIONS)))
    true = DURATIONS * rate
    return np.stack([(true - chance[0] - 2000) / DURATIONS, (true + chance[1] + 2000) / DURATIONS], axis=1)


def outside(found: np.ndarray, rate: float) -> int:
    return int((found[:, 0] > rate + RATE_RESOLUTION).sum())


@pytest.mark.parametrize("rate", [0.99, 0.9995, 1.0, 1.0005, 1.01])
def test_the_rate_of_one_stopwatch_fits_all_its_transfers(rate: float) -> None:
    found = bounds(rate)
    told = stopwatch_rate(found, 0.005)
    assert abs(told - rate) <= 0.002
    assert abs(told - 1) <= abs(rate - 1) + 1e-9, "no farther from 1 than it must be"
    assert outside(found, told) <= 0.005 * len(found)


def test_ends_of_two_rates_fit_none() -> None:
    found = np.concatenate([bounds(0.99, 1e5), bounds(1.01, 1e5)])
    assert outside(found, stopwatch_rate(found, 0.005)) > 0.3 * len(found)


def test_an_end_after_the_poll_that_found_it_is_no_matter_of_a_few() -> None:
    found = bounds(1.0)
    found[7] = (0.5, 0.6)
    assert stopwatch_rate(found, 0.02) == pytest.approx(0.6)

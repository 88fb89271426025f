"""The interval covers what it says, and tells an effect from none."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from kvscope.analysis.ratio import Block, Ratio, compared, neighbours, student, widened

EXPERIMENTS = 400


def experiment(rng: np.random.Generator, truth: float, rounds: int) -> list[tuple[Block, Block]]:
    """Rounds of some thirty skewed latencies a block, on a level that wanders by a third over the run."""
    made = []
    for number in range(rounds):
        level = 0.3 * (1 + 0.3 * np.sin(number)) * rng.lognormal(0, 0.1)
        counts = rng.integers(20, 40, 2)
        blocks = [level * rng.lognormal(0, 0.03) * rng.lognormal(0, 0.5, count) for count in counts]
        blocks[0] *= truth
        made.append((Block(float(blocks[0].mean()), counts[0]), Block(float(blocks[1].mean()), counts[1])))
    return made


def results(truth: float, rounds: int) -> Iterator[Ratio]:
    rng = np.random.default_rng(rounds)
    return (compared(experiment(rng, truth, rounds), seed, resamples=1000) for seed in range(EXPERIMENTS))


@pytest.mark.parametrize("truth", [1.0, 1.05, 1.5])
@pytest.mark.parametrize("rounds", [6, 10, 20])
def test_the_interval_covers_the_truth_in_about_95_of_100_runs(truth: float, rounds: int) -> None:
    covered = sum(result.low <= truth <= result.high for result in results(truth, rounds)) / EXPERIMENTS
    assert 0.92 <= covered <= 0.985


def test_the_smallest_effect_is_found_by_four_runs_in_five() -> None:
    claimed = float(np.median([result.smallest_effect for result in results(1.0, 20)]))
    found = sum(result.low > 1 for result in results(1 + claimed, 20)) / EXPERIMENTS
    assert 0.7 <= found <= 0.9


def test_drift_that_rounds_share_does_not_widen_the_interval() -> None:
    rng = np.random.default_rng(3)
    noise = rng.lognormal(0, 0.02, (20, 2))
    level = np.linspace(1, 3, 20)
    steady = compared([(Block(a), Block(b)) for a, b in noise])
    drifting = compared([(Block(a * at), Block(b * at)) for (a, b), at in zip(noise, level, strict=True)])
    apart = compared([(Block(a * at), Block(b)) for (a, b), at in zip(noise, level, strict=True)])
    assert drifting.width < 1.5 * steady.width < apart.width


def test_a_round_counts_by_its_weights() -> None:
    rounds = [(Block(2.0, 30), Block(1.0, 30)), (Block(8.0, 10), Block(1.0, 10))] * 3
    assert compared(rounds).value == pytest.approx(2.0 ** ((30 * 1 + 10 * 3) / 40))


def test_a_slow_stretch_counts_no_more_than_a_fast_one() -> None:
    rounds = [(Block(1.1), Block(1.0)), (Block(990.0), Block(1000.0))] * 3
    assert compared(rounds).value == pytest.approx((1.1 * 0.99) ** 0.5)


def test_the_same_seed_gives_the_same_interval() -> None:
    rounds = experiment(np.random.default_rng(1), 1.1, 8)
    assert compared(rounds, seed=4) == compared(rounds, seed=4)
    assert compared(rounds, seed=4).high != compared(rounds, seed=5).high


def test_equal_blocks_leave_no_doubt() -> None:
    result = compared([(Block(3.0), Block(2.0))] * 5)
    assert (result.value, result.low, result.high) == pytest.approx((1.5, 1.5, 1.5))
    assert result.smallest_effect == pytest.approx(0)


@pytest.mark.parametrize(
    ("rounds", "words"),
    [([(Block(1), Block(1))] * 3, "3 rounds are too few"), ([(Block(0), Block(1))] * 5, "no figure above 0")],
)
def test_what_gives_no_interval_is_refused(rounds: list[tuple[Block, Block]], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        compared(rounds)


def test_neighbours_meet_once_each_and_take_turns() -> None:
    a, b, c, d, e = (Block(float(mean)) for mean in range(1, 6))
    assert neighbours([a, b, c, d, e]) == [(b, a), (c, d)]


@pytest.mark.parametrize(("freedom", "quantile"), [(4, 2.776), (9, 2.262), (19, 2.093), (1000, 1.962)])
def test_student_is_as_tabulated(freedom: int, quantile: float) -> None:
    assert student(0.975, freedom) == pytest.approx(quantile, rel=0.01)


def test_few_rounds_are_read_further_out() -> None:
    assert widened(5)[0] < widened(20)[0] < 0.025
    assert widened(5)[1] == pytest.approx(1 - widened(5)[0])

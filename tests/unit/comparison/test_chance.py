"""Like with like differs as seldom as is said, and what was put in is found where it was put."""

from __future__ import annotations

import numpy as np
import pytest

from kvscope.comparison.verdict import compared

from .sets import drawn, halves, sides, slowed

NAMES = ("push-early", "push-sequential", "pull")
SPLITS = 50
REQUESTS = 500
PLANTED = {"push-early": "dispatch", "push-sequential": "dispatch", "pull": "read_handoff"}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_like_with_like_differs_in_one_of_twenty_at_most(name: str) -> None:
    """5 % of 50 are 2.5; more than 6 would come by chance once in a hundred times."""
    rng = np.random.default_rng(5)
    found = [any(each.sure for each in compared(*sides(name, *halves(drawn(name, REQUESTS, rng), rng))).differences)
             for _ in range(SPLITS)]  # fmt: skip
    assert sum(found) <= 6


@pytest.mark.parametrize("name", NAMES)
def test_five_hundredths_of_the_median_are_found_and_placed(name: str) -> None:
    rng, placed = np.random.default_rng(6), 0
    for _ in range(10):
        one, other = halves(drawn(name, REQUESTS, rng), rng)
        late = slowed(other, PLANTED[name], round(0.05 * float(np.median(other.ttft))))
        sure = [each for each in compared(*sides(name, one, late)).exposed if each.sure]
        placed += bool(sure) and sure[0].figure.name == PLANTED[name]
    assert placed >= 6


def test_the_interval_holds_what_was_put_in() -> None:
    rng = np.random.default_rng(7)
    one, other = halves(drawn("push-early", REQUESTS, rng), rng)
    verdict = compared(*sides("push-early", one, slowed(other, "wire", 30_000_000)))
    (wire,) = (each for each in verdict.exposed if each.figure.name == "wire")
    assert wire.low <= 30_000_000 <= wire.high
    assert wire.value == pytest.approx(wire.now - wire.was)
    assert wire.smallest > wire.high - wire.value > 0


def test_a_mixture_that_changes_is_no_difference() -> None:
    """Twice as many long prompts on the other side, and each as fast as on the one."""
    rng = np.random.default_rng(8)
    one, other = halves(drawn("push-early", 2000, rng), rng)
    long = other.prompt_tokens > np.median(other.prompt_tokens)
    fewer = other.select(long | (np.arange(len(other)) % 2 == 0))
    assert fewer.ttft.mean() > 1.05 * other.ttft.mean()
    verdict = compared(*sides("push-early", one, fewer))
    assert verdict.ttft is not None
    assert not verdict.ttft.sure

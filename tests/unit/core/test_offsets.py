"""Bounds of the offset between two clocks, in worlds where the offset is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvscope.core.offsets import DRIFT, MESSAGE, REACH_NS, estimate, telling, turned

from .worlds import HOUR, MS, SECOND, World, world

WINDOWS = 40
EXAMPLES = settings(max_examples=15, deadline=None)


def messages_of(*told: tuple[int, int, bool]) -> np.ndarray:
    return np.array(list(told), MESSAGE)


def windows(made: World, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Instants at which both hosts run: by the clock here, and the offset then."""
    true = np.random.default_rng(seed).uniform(0, made.length, WINDOWS * 4).astype(np.int64)
    awake = true[~made.here.asleep(true) & ~made.there.asleep(true)]
    return made.truth(awake[:WINDOWS])


@pytest.mark.parametrize("stops", [0, 1, 3])
def test_the_bound_covers_the_truth_in_99_of_100_windows(stops: int) -> None:
    """Delays with heavy tails, in uneven bursts; 100 ppm of drift; hosts suspended for seconds to hours."""
    inside = told = asked = steps = 0
    for seed in range(30):
        made = world(seed, stops)
        found = estimate(made.messages)
        t, truth = windows(made, seed)
        low, high, known = found.at(t)
        inside += int(((low <= truth) & (truth <= high) & known).sum())
        told, asked, steps = told + int(known.sum()), asked + len(t), steps + found.steps
    assert inside >= 0.99 * told, (inside, told)
    assert told > 0.75 * asked, "most of the time it is known"
    assert steps <= stops * 30
    assert steps >= stops * 30 * 0.9, "two that come one upon the other may be one"


def test_a_short_stop_widens_no_bound_for_long() -> None:
    """Shorter than a message takes, it contradicts nothing at once: then few windows may miss the truth."""
    inside = told = 0
    for seed in range(100, 130):
        made = world(seed, 1, smallest=MS)
        t, truth = windows(made, seed)
        low, high, known = estimate(made.messages).at(t)
        inside, told = inside + int(((low <= truth) & (truth <= high) & known).sum()), told + int(known.sum())
    assert inside >= 0.99 * told, (inside, told)


@given(st.integers(0, 10_000), st.integers(1, 30))
@EXAMPLES
def test_the_bound_is_half_the_smallest_round_trip_in_the_window_and_drift(seed: int, seconds: int) -> None:
    """A round trip: the fastest message there and the fastest back, by a clock that is right."""
    made = world(seed)
    found = estimate(made.messages)
    t, _ = windows(made, seed)
    low, high, known = found.at(t)
    half = seconds * SECOND
    trip = made.messages["there"] - made.messages["here"]
    for at, least, most in zip(t[known].tolist(), low[known].tolist(), high[known].tolist(), strict=True):
        near = np.abs(made.messages["here"] - at) <= half
        there, back = trip[near & ~made.messages["back"]], trip[near & made.messages["back"]]
        if len(there) and len(back):
            assert (most - least) / 2 <= (there.min() - back.max()) / 2 + DRIFT * half + 3


@given(st.integers(0, 10_000), st.integers(0, 2))
@EXAMPLES
def test_it_is_the_same_from_the_other_side(seed: int, stops: int) -> None:
    made = world(seed, stops)
    one, other = estimate(made.messages), estimate(turned(made.messages))
    assert (one.steps, one.sent, one.received) == (other.steps, other.received, other.sent)
    if stops:  # which message is the last before a step depends on whose clock orders them
        return
    true = np.linspace(0, made.length, 50).astype(np.int64)
    true = true[~made.here.asleep(true) & ~made.there.asleep(true)]
    low, high, known = one.at(made.here.at(true))
    lower, higher, as_well = other.at(made.there.at(true))
    both = known & as_well
    slack = 2 + 2 * DRIFT * (high - low)[both]  # an instant here is one there only to within the bound
    assert (np.abs(low + higher)[both] <= slack).all()
    assert (np.abs(high + lower)[both] <= slack).all()


@given(st.integers(0, 10_000), st.integers(0, 2))
@EXAMPLES
def test_the_few_that_tell_say_what_all_say(seed: int, stops: int) -> None:
    made = world(seed, stops)
    few = telling(made.messages)
    assert len(few) < 0.8 * len(made.messages), "fewer, the denser they come"
    t, _ = windows(made, seed)
    all_of_them, those = estimate(made.messages), estimate(few)
    assert those.steps == all_of_them.steps
    low, high, known = all_of_them.at(t)
    lower, higher, as_well = those.at(t)
    assert (known >= as_well).all()
    assert (known == as_well).mean() > 0.8, "reach is told by the nearest message, which may be gone"
    assert (np.abs(low - lower)[as_well] <= 2).all()
    assert (np.abs(high - higher)[as_well] <= 2).all()


@given(st.integers(0, 10_000), st.randoms(use_true_random=False))
@EXAMPLES
def test_the_order_of_messages_and_repetition_leave_no_trace(seed: int, rng: object) -> None:
    made = world(seed, 1)
    again = np.concatenate((made.messages[::-1], made.messages[:5]))
    t, _ = windows(made, seed)
    assert all(np.array_equal(*both) for both in zip(estimate(made.messages).at(t), estimate(again).at(t), strict=True))


def test_the_drift_is_within_what_is_told_of_it() -> None:
    widths = []
    for seed in range(20):
        made = world(seed)
        rate = estimate(made.messages).rate
        assert rate is not None
        true = (1 + made.there.rate) / (1 + made.here.rate) - 1
        assert rate[0] - 1e-9 <= true <= rate[1] + 1e-9
        widths.append(rate[1] - rate[0])
    assert np.median(widths) < DRIFT / 2, "and that is worth something"


def test_a_message_each_way_bounds_the_offset_to_the_nanosecond() -> None:
    found = estimate(messages_of((1000, HOUR + 1400, False), (2000, HOUR + 1700, True)))
    low, high, known = found.at(np.array([1000, 2000]))
    assert known.all()
    assert (low - HOUR).tolist() == [-302, -301], "and a ns for rounding, and what it can drift in a microsecond"
    assert (high - HOUR).tolist() == [401, 402]


def test_one_way_alone_tells_nothing() -> None:
    found = estimate(messages_of((1000, 5000, False), (3000, 7000, False)))
    assert not found.at(np.array([1000, 2000, 3000]))[2].any()
    assert (found.steps, found.rate) == (0, None)
    assert not estimate(np.empty(0, MESSAGE)).at(np.array([5]))[2].any()


def test_messages_reach_no_further_than_a_minute() -> None:
    found = estimate(messages_of((0, 100, False), (0, -100, True)))
    assert found.at(np.array([-REACH_NS, REACH_NS, REACH_NS + 1, -REACH_NS - 1]))[2].tolist() == [
        True,
        True,
        False,
        False,
    ]


def test_nobody_guesses_on_which_side_of_a_step_an_instant_lies() -> None:
    """The clock there stops for a second, somewhere between 10 and 20 s: what was sent then fits both sides."""
    before = [(s * SECOND, s * SECOND + (-MS if s % 2 else MS), bool(s % 2)) for s in range(10)]
    late = [(15 * SECOND, 15 * SECOND - 1500 * MS, True)]
    after = [(s * SECOND, s * SECOND - SECOND + (-MS if s % 2 else MS), bool(s % 2)) for s in range(20, 30)]
    found = estimate(messages_of(*before, *late, *after))
    assert found.steps == 1
    assert found.doubtful_ns >= 10 * SECOND
    low, high, known = found.at(np.array([5 * SECOND, 17 * SECOND, 25 * SECOND]))
    assert known.tolist() == [True, False, True]
    assert low[0] <= 0 <= high[0]
    assert low[2] <= -SECOND <= high[2]

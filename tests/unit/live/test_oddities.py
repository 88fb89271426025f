"""Engines unlike their peers: by how much, and when nobody may be called so."""

from __future__ import annotations

import numpy as np
import pytest

from kvscope.live.enginefigures import latest_loads
from kvscope.live.oddities import RULES, Oddities, gather_oddities
from kvscope.live.roster import gather_roster
from kvscope.live.seats import seats_of

from .fleet import request
from .picture import Items, load, picture, started, steps

CONSUMER = {"role": "kv_consumer", "kv_blocks": 1_000}
PRODUCER = {"role": "kv_producer", "kv_blocks": 1_000}


def decoders(number: int) -> Items:
    return [started(f"d-{n}", **CONSUMER) for n in range(number)]


def oddities(items: Items, now_s: float = 10) -> Oddities:
    shown = picture(items, now_s)
    seats = seats_of(shown)
    loads = latest_loads(shown.scoped, seats)
    return gather_oddities(shown, seats, gather_roster(shown, seats, loads), loads)


def named(found: Oddities) -> list[tuple[str, str]]:
    return [(oddity.engine, oddity.rule.name) for oddity in found.found]


def stepping(lengths_ms: list[float], count: int = 40, noise_ms: float = 1.0, seed: int = 0) -> Items:
    """One decode engine for each length, with steps that are about so long."""
    dice = np.random.default_rng(seed)
    items = decoders(len(lengths_ms))
    for n, length in enumerate(lengths_ms):
        items += steps(f"d-{n}", (length + dice.normal(0, noise_ms, count)).clip(0.1).tolist(), begin_ms=2_000)
    return items


def test_a_slow_stepper_is_named_beside_what_its_peers_take() -> None:
    found = oddities(stepping([57, 57.4, 71, 56.8]))
    assert named(found) == [("d-2", "step")]
    (oddity,) = found.found
    assert oddity.value == pytest.approx(71e6, rel=0.01)
    assert oddity.peers == pytest.approx(57e6, rel=0.01)
    assert found.compared == (("decode", 4),)


def test_of_two_nobody_knows_which_is_odd() -> None:
    assert oddities(stepping([57, 171])) == Oddities((), ())


def test_engines_that_differ_all_alike_are_not_odd() -> None:
    assert named(oddities(stepping([40, 50, 60, 70, 80, 90]))) == []


def test_noise_alone_names_nobody() -> None:
    found = [oddities(stepping([20] * 12, count=12, noise_ms=8, seed=seed)) for seed in range(20)]
    assert [named(each) for each in found] == [[]] * 20


def test_a_figure_of_few_steps_is_none() -> None:
    items = [*stepping([57, 57, 57, 57]), started("d-9", **CONSUMER), *steps("d-9", [200.0] * 4, begin_ms=2000)]
    assert named(oddities(items)) == []


def test_only_the_latest_steps_count() -> None:
    """What was slow a minute ago is not odd now."""
    items = stepping([20, 20, 20, 20], count=100) + steps("d-1", [90.0] * 60, begin_ms=50_000)
    assert named(oddities(items, 56)) == []  # nothing of its peers is recent
    for n in (0, 2, 3):
        items += steps(f"d-{n}", [20.0] * 60, begin_ms=50_000)
    assert named(oddities(items, 56)) == [("d-1", "step")]


def test_an_engine_short_of_blocks_is_named_and_one_with_more_is_not() -> None:
    free = [600, 90, 610, 640, 980]
    items = decoders(5) + [load(f"d-{n}", 500, 0, 1, 0, blocks) for n, blocks in enumerate(free)]
    assert named(oddities(items)) == [("d-1", "free")]
    assert oddities(items).found[0].value == pytest.approx(0.09)


def test_fewer_free_blocks_than_peers_are_no_trouble_while_there_are_plenty() -> None:
    items = decoders(4) + [load(f"d-{n}", 500, 0, 1, 0, blocks) for n, blocks in enumerate([900, 400, 910, 905])]
    assert named(oddities(items)) == []


def test_a_long_queue_is_named_and_one_request_more_is_not() -> None:
    items = decoders(5) + [load(f"d-{n}", 500, waiting, 1, 0, 500) for n, waiting in enumerate([1, 14, 0, 2, 1])]
    assert named(oddities(items)) == [("d-1", "waiting")]


def test_a_late_writer_is_named() -> None:
    """Blocks of p-2 are handed 40 ms earlier than the writer takes them."""
    items = [started(f"p-{n}", **PRODUCER) for n in range(4)]
    for number in range(60):
        engine = f"p-{number % 4}"
        for item in request("early", number, 100 * number):
            early = 40_000_000 if engine == "p-2" and item["moment"] in ("computed", "handed") else 0
            late = early if item["leg"] == "prefill" else 0
            items.append({**item, "t": item["t"] - late, "engine": engine if item["engine"] == "p0" else "d0"})
    found = oddities(items)
    assert named(found) == [("p-2", "writer wake-up")]
    assert (found.found[0].value, found.found[0].peers) == (41e6, 1e6)


def test_roles_are_not_mixed() -> None:
    """Prefill steps are longer than decode's: no decode engine is odd for it, nor the other way round."""
    items = stepping([12, 12, 12]) + [started(f"p-{n}", **PRODUCER) for n in range(3)]
    for n in range(3):
        items += steps(f"p-{n}", [150.0] * 20, begin_ms=2_000)
    found = oddities(items)
    assert (found.found, found.compared) == ((), (("prefill", 3), ("decode", 3)))


def test_the_oddest_comes_first() -> None:
    found = oddities(stepping([57, 57, 75, 57, 171, 57, 57, 57]))
    assert named(found) == [("d-4", "step"), ("d-2", "step")]


def test_every_threshold_has_its_reason() -> None:
    assert all(rule.reason and rule.least > 0 for rule in RULES)
    assert len({rule.name for rule in RULES}) == len(RULES)

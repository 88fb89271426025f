"""Which pairs are told by name: the busiest, the others together, nothing twice and nothing backwards."""

from __future__ import annotations

import numpy as np

from kvscope.core.stream import SECOND
from kvscope.metrics.labels import PAIR
from kvscope.metrics.pairs import ELECT_NS, Places
from kvscope.metrics.tables import Store

NAMES = [f"e{number}" for number in range(200)]


def counted(store: Store, places: Places, prefill: list[int]) -> None:
    """A request of each prefill engine with the same decode engine."""
    rows = places.rows_of(np.array(prefill), np.full(len(prefill), 199), NAMES)
    store.table("pair_requests_total").add(rows, 0, 1)


def told(store: Store, places: Places) -> dict[str, float]:
    """Prefill engine -> requests."""
    values = store.table("pair_requests_total").values[:, 0]
    return {labels[0]: float(values[row]) for row, labels in places.rows.told().items() if values[row]}


def elected(store: Store, places: Places, now: int) -> None:
    for row in places.elect(now):
        store.clear(PAIR, row)


def test_first_come_is_told_and_the_others_together() -> None:
    store, places = Store(), Places()
    counted(store, places, list(range(PAIR.most + 30)))
    found = told(store, places)
    assert found.pop("other") == 30
    assert found == {f"e{number}": 1 for number in range(PAIR.most)}


def test_a_busier_pair_takes_the_place_of_an_idle_one_and_no_series_goes_backwards() -> None:
    store, places = Store(), Places()
    elected(store, places, 0)
    counted(store, places, list(range(PAIR.most)))
    counted(store, places, [100] * 500)
    before = told(store, places)
    assert before["other"] == 500
    elected(store, places, ELECT_NS)
    counted(store, places, [100] * 7)
    after = told(store, places)
    assert after["e100"] == 7, "it begins when it is told: what was before has been told among the others"
    assert after["other"] == 500
    assert len(after) == PAIR.most + 1
    assert all(after[name] >= before[name] for name in after.keys() & before.keys())


def test_pairs_that_are_much_alike_keep_their_places() -> None:
    store, places = Store(), Places()
    elected(store, places, 0)
    for _ in range(20):
        counted(store, places, list(range(PAIR.most)))
        counted(store, places, [100, 101])
    names = set(places.rows.told().values())
    for minute in range(1, 10):
        elected(store, places, minute * ELECT_NS)
        counted(store, places, [*range(PAIR.most), 100, 101])
    assert set(places.rows.told().values()) == names


def test_places_are_given_anew_once_a_minute() -> None:
    store, places = Store(), Places()
    elected(store, places, 0)
    counted(store, places, [*range(PAIR.most), *[100] * 500])
    assert places.elect(ELECT_NS - SECOND) == []
    assert len(places.elect(ELECT_NS)) == 1

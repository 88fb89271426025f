"""Rows laid side by side are what was laid last, and what somebody looks at never changes."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kvscope.core.critical_path import split
from kvscope.live import register
from kvscope.live.register import Register
from kvscope.model.splits import CARVE, COLUMNS, Splits, concat

from .fleet import events, stretch


def some() -> Splits:
    """Forty requests on two decode engines, most with a piece cut out of their path."""
    whole = split(events([*stretch("early", 0, 2), *stretch("pull", 2, 4, first=20)]))
    carves = np.zeros(30, CARVE)
    carves["row"] = np.sort(np.random.default_rng(0).integers(0, len(whole), 30))
    carves["begin"] = np.arange(30)
    return replace(whole, carves=carves, texts={})


def same(found: Splits, wanted: Splits) -> None:
    for name in (*COLUMNS, "carves"):
        assert np.array_equal(getattr(found, name), getattr(wanted, name)), name
    engines = [[each.engine for each in splits.engines] for splits in (found, wanted)]
    assert engines[0][: len(engines[1])] == engines[1]


def frozen(splits: Splits) -> Splits:
    columns: dict[str, Any] = {
        name: np.copy(each) if isinstance(each, np.ndarray) else each for name, each in vars(splits).items()
    }
    return Splits(**columns)


@pytest.mark.parametrize("seed", range(12))
def test_a_view_is_what_was_laid_last_and_stays_so(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(register, "SPARE", 8)  # so that tables are full now and then
    monkeypatch.setattr(register, "MOST_CHANGES", 7)
    choose, whole = random.Random(seed), some()
    none = whole.select(np.empty(0, np.int64))
    rows, begin = Register(none), 0
    model: list[Splits] = []
    looked_at: list[tuple[Splits, Splits]] = []

    def any_of(count: int) -> Splits:
        return whole.select(np.array(choose.choices(range(len(whole)), k=count), np.int64))

    for _ in range(120):
        turn = choose.random()
        if turn < 0.4:
            new = any_of(choose.randrange(6))
            assert rows.add(new).tolist() == list(range(len(model), len(model) + len(new)))
            model += [new.select(np.array([at])) for at in range(len(new))]
        elif turn < 0.6 and len(model) > begin:
            places = np.array(choose.sample(range(begin, len(model)), choose.randint(1, min(4, len(model) - begin))))
            new = any_of(len(places))
            rows.replace(places, new)
            for at, place in enumerate(places.tolist()):
                model[place] = new.select(np.array([at]))
        elif turn < 0.7:
            begin = choose.randint(begin, len(model))
            rows.forget(begin)
        else:
            first, tail = choose.randint(begin, len(model)), any_of(choose.randrange(5))
            view = rows.view(first, tail)
            same(view, concat([none, *model[first:], tail]))
            looked_at.append((view, frozen(view)))
        assert len(rows) == len(model) - begin
        same(rows.rows, concat([none, *model[begin:]]))
        if len(looked_at) > 3:
            looked_at.pop(choose.randrange(len(looked_at)))
        for view, as_it_was in looked_at:
            same(view, as_it_was)


def test_tables_that_nobody_looks_at_are_used_again() -> None:
    whole = some()
    rows = Register(whole.select(np.empty(0, np.int64)))
    shown: list[Splits] = []
    tables = set()
    for turn in range(200):
        rows.add(whole.select(np.array([turn % len(whole)])))
        rows.forget(turn - 20)
        shown = [*shown[-1:], rows.view(turn - 20, whole.select(np.array([0])))]
        tables.add(id(shown[-1].request.base))
    assert len(rows._tables) <= 3
    assert len(tables) < 12


def test_engines_are_numbered_alike_in_all() -> None:
    first, second = (split(events(stretch("early", 0, 1))), split(events(stretch("pull", 0, 1))))
    renamed = tuple(replace(each, engine=f"other-{each.engine}") for each in second.engines)
    rows = Register(first.select(np.empty(0, np.int64)))
    rows.add(first)
    view = rows.view(0, replace(second, engines=renamed))
    names = [view.engines[at].engine for at in view.decode_engine.tolist()]
    assert names == ["d0"] * len(first) + ["other-d0"] * len(second)

"""The screens as they are drawn, at three sizes: whoever changes one sees in the diff what a person will see.

After a change that is meant: `pytest tests/unit/top/test_snapshots.py --snapshot-update`, and look at what changed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from textual.pilot import Pilot

from kvscope.analysis.render.looks import Looks
from kvscope.live.collector import Collector
from kvscope.live.feed import Batch, Flow
from kvscope.model.events import Events
from kvscope.top.app import Top

from ..core.scene import events_of
from ..live.fleet import Items, request
from ..live.picture import load, started, steps
from .test_app import Still, shown

SIZES = ((80, 24), (100, 30), (160, 45))
USUAL = (100, 30)
TOLD = {"model": "models/qwen3-32b", "connector": "NixlPushConnector", "mode": "push", "placement": "writer"}
SECOND = 1_000_000_000
END_S = 41


@cache
def fleet() -> Events:
    """Twenty seconds dispatched early, twenty sequentially; of three decode engines one is slow; one request hangs."""
    items: Items = [started("p0", role="kv_producer", kv_blocks=2_000, **TOLD)]
    for n in range(3):
        items.append(started(f"d{n}", role="kv_consumer", kv_blocks=1_000, **TOLD))
        items.append(load(f"d{n}", 39_000, n, 2, 1, 700 - 200 * n))
        items += steps(f"d{n}", [40.0 if n == 2 else 20.0] * 400, begin_ms=20_000)
    for n in range(400):
        late = 100 * (n % 4) + 300 * (n % 3 == 2) if n >= 200 else 0
        items += request("sequential" if n >= 200 else "early", n, 100.0 * n, late, f"d{n % 3}")
    items += [item for item in request("early", 900, 36_000) if item["t"] < 36_060_000_000]
    items.sort(key=lambda item: item["t"])
    return events_of({**item, "blocks": 8} if item["moment"] in ("reserved", "computed") else item for item in items)


class Held(Still):
    """Everything at the first poll; time stands still, and no clock of this machine is asked."""

    def poll(self) -> Batch:
        return Batch(super().poll().events, END_S * SECOND, None, Flow.LIVE)


@cache
def collector() -> Collector:
    """One for all: once it has read everything, it shows the same for ever."""
    made = Collector(Held(fleet()))
    made.step()
    return made


Compare = Callable[..., bool]


@pytest.fixture
def same(snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Whether the screen after some keys is the one that is kept."""
    monkeypatch.delenv("NO_COLOR", raising=False)

    def compare(*keys: str, size: tuple[int, int] = USUAL) -> bool:
        app = Top(collector(), Looks())

        async def run_before(pilot: Pilot[Any]) -> None:
            await shown(app, pilot)
            await pilot.press(*keys)
            await pilot.pause()

        try:
            return snap_compare(app, terminal_size=size, run_before=run_before)
        finally:
            app.finish()

    return compare


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_overview(same: Callable[..., bool], size: tuple[int, int]) -> None:
    assert same(size=size)


@pytest.mark.parametrize(("key", "name"), [("2", "engines"), ("3", "pairs"), ("5", "stuck"), ("6", "commitment")])
def test_view(same: Callable[..., bool], key: str, name: str) -> None:
    assert same(key)


def test_requests(same: Callable[..., bool]) -> None:
    assert same("4", "greater_than_sign", "down", "down")


def test_waterfall(same: Callable[..., bool]) -> None:
    assert same("4", "greater_than_sign", "enter")


def test_help(same: Callable[..., bool]) -> None:
    assert same("question_mark")

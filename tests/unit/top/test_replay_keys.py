"""The keys of a replay, on a real recording."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from kvscope.analysis.render.looks import Looks
from kvscope.live.collector import Collector
from kvscope.live.feed import Flow
from kvscope.live.replay import Place, Replay
from kvscope.model.errors import InputError
from kvscope.top.app import Top
from kvscope.top.seeking import seek

RECORDING = Path(__file__).parents[3] / "docs" / "pictures" / "push-early.kvs"


def place(app: Top) -> Place:
    assert app.replay is not None
    found = app.replay.place
    assert found is not None
    return found


async def until(app: Top, pilot: Pilot[Exception | None], flow: Flow) -> None:
    for _ in range(1000):
        if app.newest is not None and app.newest.flow is flow:
            await pilot.pause()
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"it is {app.newest and app.newest.flow}, not {flow}")


def status(app: Top) -> str:
    return str(app.query_one("#status", Static).render())


def title(app: Top) -> str:
    return app.current.made(100).lines[0].plain


async def shown_at(app: Top, pilot: Pilot[Exception | None], said: str) -> None:
    """Wait until the status line says so."""
    for _ in range(500):
        await pilot.pause()
        if re.search(said, status(app)):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{status(app)!r} is not {said!r}")


def test_pause_step_speed_and_seek() -> None:
    app = Top(Collector(Replay([RECORDING])), Looks(ascii_only=True))

    async def run() -> None:
        async with app.run_test(size=(100, 30)) as pilot:
            await until(app, pilot, Flow.REPLAY)
            await pilot.press("space")
            await until(app, pilot, Flow.PAUSED)
            stood = place(app).position_s
            await pilot.press("g", *"20s", "enter")
            for _ in range(500):
                if abs(place(app).position_s - 20) < 0.1:
                    break
                await asyncio.sleep(0.02)
            assert place(app).position_s == pytest.approx(20, abs=0.1)
            assert stood < 10
            await pilot.press("right")
            for _ in range(500):
                if place(app).position_s > 20.1:
                    break
                await asyncio.sleep(0.02)
            assert place(app).position_s == pytest.approx(20.25, abs=0.05)
            await shown_at(app, pilot, r"PAUSED  0:20\.2\d\d of 0:27, x1 .*:\d\d\.\d\d\d  ")
            assert re.search(r"REPLAY PAUSED \d\d:\d\d:\d\d\.\d\d\d  win", title(app))
            await pilot.press("right_square_bracket", "p")
            await until(app, pilot, Flow.REPLAY)
            assert place(app).speed == 2
            await pilot.press("left_square_bracket", "g", *"+1h", "enter")
            await until(app, pilot, Flow.ENDED)
            assert place(app).speed == 1
            assert app.shown is not None
            assert len(app.shown.window) == 63
            await pilot.press("g", *"soon", "enter")
            assert "no time to go to" in str(app.query_one("#status").render())

    try:
        asyncio.run(run())
    finally:
        app.collector.feed.close()


class Sought:
    """What a replay was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, float]] = []

    def seek(self, seconds: float) -> None:
        self.told.append(("to", seconds))

    def skip(self, seconds: float) -> None:
        self.told.append(("by", seconds))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("90s", ("to", 90)),
        ("90", ("to", 90)),
        ("1m30s", ("to", 90)),
        ("1h 2m 3.5s", ("to", 3723.5)),
        ("+10s", ("by", 10)),
        ("-2m", ("by", -120)),
        (" 0 ", ("to", 0)),
    ],
)
def test_times_are_read_as_people_write_them(text: str, told: tuple[str, float]) -> None:
    sought = Sought()
    seek(sought, text)
    assert sought.told == [told]


@pytest.mark.parametrize("text", ["", "soon", "+", "10 parsecs", "5s1m"])
def test_what_is_no_time_is_said(text: str) -> None:
    with pytest.raises(InputError, match="write 90s, 1m30s"):
        seek(Sought(), text)

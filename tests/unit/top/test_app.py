"""Every key does what the page of keys says, on an app that runs without a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static

from kvscope.analysis.render.looks import Looks
from kvscope.live.collector import Collector
from kvscope.live.feed import Batch, Flow, no_events
from kvscope.live.listing import NEWEST
from kvscope.model.errors import InputError
from kvscope.model.events import Events
from kvscope.top.app import Top
from kvscope.top.keys import KEYS
from kvscope.top.widgets.help_screen import HelpScreen
from kvscope.top.widgets.page_view import PageView
from kvscope.top.widgets.waterfall_screen import WaterfallScreen

from ..live.fleet import events, request, stretch

Steps = Callable[[Top, Pilot[Exception | None]], Awaitable[None]]


class Still:
    """Everything at the first poll, then only time."""

    name = "test"

    def __init__(self, whole: Events | None = None, error: str = "", unable: str = "") -> None:
        self._whole, self._error, self._unable = whole, error, unable
        self.now = int(whole.rows["t"].max()) + 2_000_000_000 if whole is not None else 0
        self.saved: list[Path] = []
        self.polls = 0

    def poll(self) -> Batch:
        if self._error:
            raise InputError(self._error)
        whole, self._whole = self._whole or no_events(), None
        self.now += 300_000_000
        self.polls += 1
        return Batch(whole, self.now, None, Flow.LIVE)

    def save(self, folder: Path) -> str:
        if self._unable:
            raise InputError(self._unable)
        self.saved.append(folder)
        return "saved 3 events"

    def close(self) -> None:
        pass


def driven(feed: Still, steps: Steps, size: tuple[int, int] = (100, 30), folder: Path | None = None) -> Top:
    app = Top(Collector(feed), Looks(ascii_only=True), folder=folder)

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await shown(app, pilot)
            await steps(app, pilot)

    asyncio.run(run())
    return app


async def shown(app: Top, pilot: Pilot[Exception | None], polls: int = 1) -> None:
    """Wait for that many more pictures."""
    feed = app.collector.feed
    assert isinstance(feed, Still)
    goal = feed.polls + polls
    for _ in range(400):
        if app.return_value is not None or (app.newest is not None and feed.polls >= goal):
            break
        await asyncio.sleep(0.01)
    await pilot.pause()


def text(view: PageView) -> str:
    assert view.snapshot is not None
    return "\n".join(line.plain.rstrip() for line in view.made(view.size.width).lines)


def status(app: Top) -> str:
    return str(app.screen_stack[0].query_one("#status", Static).render())


def some() -> Still:
    hung = [item for item in request("early", 900, 1900) if item["t"] < 1_960_000_000]
    slow = [request("sequential", 800, 1000, delay_ms=300), hung]
    return Still(events([*stretch("early", 0, 2), *slow]))


@pytest.mark.parametrize(("key", "name"), [(key.keys, key.action[6:-2]) for key in KEYS if key.action[:5] == "view("])
def test_each_view_has_its_key(key: str, name: str) -> None:
    async def steps(app: Top, pilot: Pilot[Exception | None]) -> None:
        await pilot.press(key)
        assert app.current.id == name
        assert text(app.current)
        await pilot.press("tab")
        assert app.current.id != name
        await pilot.press("shift+tab")
        assert app.current.id == name

    driven(some(), steps)


def test_freezing_holds_what_is_shown_and_not_what_is_collected() -> None:
    async def steps(app: Top, pilot: Pilot[Exception | None]) -> None:
        await pilot.press("p")
        frozen = app.shown
        await shown(app, pilot, 3)
        assert app.shown is frozen
        assert app.newest is not frozen
        assert "FROZEN" in status(app)
        await pilot.press("p")
        assert app.shown is app.newest
        assert "FROZEN" not in status(app)

    driven(some(), steps)


def test_the_cursor_stays_on_its_request_and_enter_opens_it() -> None:
    async def steps(app: Top, pilot: Pilot[Exception | None]) -> None:
        await pilot.press("4", "down", "down", "j", "up")
        assert app.requests.chosen() is not None
        chosen = app.requests.chosen()
        await shown(app, pilot, 2)
        assert app.requests.chosen() == chosen
        await pilot.press("enter")
        assert isinstance(app.screen, WaterfallScreen)
        assert "TTFT" in text(app.screen.view)
        before = text(app.screen.view)
        await pilot.press("z")
        assert "MOMENTS" in text(app.screen.view)
        assert "MOMENTS" not in before
        await shown(app, pilot, 2)
        await pilot.press("down", "pagedown", "pageup", "up", "escape")
        assert not isinstance(app.screen, WaterfallScreen)
        await pilot.press("end")
        assert "r0000" in text(app.requests)
        await pilot.press("home", "pagedown", "pageup", "k")
        assert app.requests.chosen() == app.requests._table.at(0)

    driven(some(), steps)


def test_filter_sort_reverse() -> None:
    async def steps(app: Top, pilot: Pilot[Exception | None]) -> None:
        await pilot.press("slash", *"stage.dispatch>50ms", "enter")
        assert "1 of 22 requests" in text(app.requests)
        assert "r0800" in text(app.requests)
        await pilot.press("slash", *" nonsense=1", "enter")
        assert "there is no 'nonsense'" in status(app)
        assert app.query_one("#question", Input).has_class("asked")
        await pilot.press("escape")
        assert not app.query_one("#question", Input).has_class("asked")
        await pilot.press("escape")
        assert app.requests.listing.wanted is None
        await pilot.press("greater_than_sign")
        assert app.requests.listing.order == "ttft"
        assert "by ttft" in text(app.requests)
        first = app.requests.chosen()
        await pilot.press("r", "r")
        assert app.requests.chosen() == first
        await pilot.press("less_than_sign")
        assert app.requests.listing.order == NEWEST

    driven(some(), steps)


def test_engines_and_pairs_open_their_requests_and_what_is_stuck_its_waterfall() -> None:
    async def steps(app: Top, pilot: Pilot[Exception | None]) -> None:
        await pilot.press("2", "down", "enter")
        assert app.current.id == "requests"
        assert "filter: engine=p0" in text(app.current)
        await pilot.press("3", "enter")
        assert "filter: prefill=p0 decode=d0" in text(app.current)
        await pilot.press("5", "enter")
        assert isinstance(app.screen, WaterfallScreen)
        assert "UNFINISHED" in text(app.screen.view)

    driven(some(), steps)


def test_pairs_go_through_their_figures() -> None:
    async def steps(app: Top, pilot: Pilot[Exception | None]) -> None:
        heads = []
        for _ in range(6):
            await pilot.press("f")
            heads.append(text(app.current).split("  ")[1])
        assert len(set(heads)) == 5
        assert heads[0] == heads[5]

    driven(some(), steps)


def test_a_click_chooses_and_a_second_opens() -> None:
    async def steps(app: Top, pilot: Pilot[Exception | None]) -> None:
        await pilot.press("4")
        first = app.requests.chosen()
        await pilot.click("#requests", offset=(5, 4))
        assert app.requests.chosen() != first
        await pilot.click("#requests", offset=(5, 4))
        assert isinstance(app.screen, WaterfallScreen)

    driven(some(), steps)


def test_help_shows_every_key() -> None:
    async def steps(app: Top, pilot: Pilot[Exception | None]) -> None:
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)
        page = text(app.screen.view)
        assert all(key.shown in page and key.meaning in " ".join(page.split()) for key in KEYS if key.meaning)
        assert "hidden.S" in page
        await pilot.press("down", "pagedown", "escape")
        assert not isinstance(app.screen, HelpScreen)

    driven(some(), steps)


VIEWS = [(key.keys, key.action[6:-2]) for key in KEYS if key.action[:5] == "view("]


@pytest.mark.parametrize("over", [("question_mark",), ("4", "enter"), ("4", "enter", "question_mark")], ids=" ".join)
def test_what_lies_over_a_view_makes_way_for_another(over: tuple[str, ...]) -> None:
    async def steps(app: Top, pilot: Pilot[Exception | None]) -> None:
        for key, name in (*VIEWS, ("r", "requests"), ("f", "pairs"), ("slash", "requests")):
            await pilot.press(*over)
            assert len(app.screen_stack) > 1
            await pilot.press(key)
            assert (len(app.screen_stack), app.current.id, app.current.display) == (1, name, True)
            assert app.focused is (app.query_one("#question") if key == "slash" else app.current)

    driven(some(), steps)


def test_keys_that_mean_nothing_over_a_view_open_nothing_more() -> None:
    async def steps(app: Top, pilot: Pilot[Exception | None]) -> None:
        await pilot.press("4", "enter", "enter", "enter")
        assert len(app.screen_stack) == 2
        assert isinstance(app.screen, WaterfallScreen)
        await pilot.press("escape", "h", "h", "f1", "f1", "question_mark", "end", "home")
        assert isinstance(app.screen, HelpScreen)
        assert len(app.screen_stack) == 2

    driven(some(), steps, size=(100, 10))


def test_home_and_end_scroll_what_lies_over_a_view() -> None:
    async def steps(app: Top, pilot: Pilot[Exception | None]) -> None:
        for keys in (("question_mark",), ("4", "enter", "z")):
            await pilot.press(*keys)
            assert isinstance(app.screen, HelpScreen | WaterfallScreen)
            view = app.screen.view
            await pilot.press("end")
            assert view.scroll_offset.y == view.max_scroll_y > 0
            await pilot.press("home")
            assert view.scroll_offset.y == 0
            await pilot.press("escape")

    driven(some(), steps, size=(100, 10))


def test_saving_says_what_became_of_it(tmp_path: Path) -> None:
    async def saved(app: Top, pilot: Pilot[Exception | None]) -> None:
        await pilot.press("s")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "saved 3 events" in status(app)

    feed = some()
    driven(feed, saved, folder=tmp_path)
    assert feed.saved == [tmp_path]

    async def unable(app: Top, pilot: Pilot[Exception | None]) -> None:
        await pilot.press("s")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "the disk is full" in status(app)

    driven(Still(events(stretch("early", 0, 1)), unable="the disk is full"), unable)


def test_an_export_is_a_picture_text_and_numbers(tmp_path: Path) -> None:
    async def steps(app: Top, pilot: Pilot[Exception | None]) -> None:
        await pilot.press("e")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "wrote kvscope-overview-" in status(app)

    driven(some(), steps, folder=tmp_path)
    kinds = {path.suffix: path.read_text() for path in tmp_path.iterdir()}
    assert set(kinds) == {".svg", ".txt", ".json"}
    assert kinds[".svg"].startswith("<svg")
    assert '"version"' in kinds[".json"]
    assert "p50" in kinds[".txt"]


def test_a_source_that_can_give_nothing_ends_it_with_its_sentence() -> None:
    async def steps(app: Top, pilot: Pilot[Exception | None]) -> None:
        pass

    app = driven(Still(error="cannot read /nowhere: permission denied"), steps)
    assert str(app.return_value) == "cannot read /nowhere: permission denied"


class Faulty(Still):
    """Reads once."""

    def poll(self) -> Batch:
        if self.polls:
            raise ZeroDivisionError("division by zero")
        return super().poll()


def test_a_fault_while_reading_ends_it_before_old_pictures_pass_for_new() -> None:
    async def steps(app: Top, pilot: Pilot[Exception | None]) -> None:
        for _ in range(400):
            if app.return_value is not None:
                break
            await asyncio.sleep(0.01)

    assert isinstance(driven(Faulty(events(stretch("early", 0, 1))), steps).return_value, ZeroDivisionError)


@pytest.mark.parametrize("size", [(40, 12), (60, 20), (80, 24), (120, 40), (300, 80)])
def test_every_view_fits_every_size(size: tuple[int, int]) -> None:
    async def steps(app: Top, pilot: Pilot[Exception | None]) -> None:
        for key in "123456":
            await pilot.press(key)
            lines = text(app.current).split("\n")
            assert max(map(len, lines)) <= size[0]
            assert (size[0] < 60) == ("Make it wider" in " ".join(lines))

    driven(some(), steps, size)


def test_nothing_at_all_says_what_to_do() -> None:
    async def steps(app: Top, pilot: Pilot[Exception | None]) -> None:
        await shown(app, pilot, 2)
        for key in "123456":
            await pilot.press(key)
            assert text(app.current)
        await pilot.press("1")
        assert "kvscope doctor" in " ".join(text(app.current).split())
        await pilot.press("4", "enter", "down", "s", "q")

    driven(Still(), steps)

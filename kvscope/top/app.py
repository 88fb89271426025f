"""The app: a reading thread hands over pictures, the newest is shown. Drawing never holds reading up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Container
from textual.message import Message
from textual.widgets import ContentSwitcher, Input

from kvscope.analysis.render.looks import Looks
from kvscope.live.collector import Collector
from kvscope.live.listing import Listing
from kvscope.live.replay import STRIDE_S, Replay
from kvscope.live.snapshot import Snapshot
from kvscope.model.errors import InputError
from kvscope.top.exporting import export
from kvscope.top.keys import KEYS
from kvscope.top.seeking import seek
from kvscope.top.status import keys, status
from kvscope.top.terminal import end_on_signals
from kvscope.top.views import views
from kvscope.top.widgets.help_screen import HelpScreen
from kvscope.top.widgets.line import Line
from kvscope.top.widgets.list_view import ListView
from kvscope.top.widgets.pairs_view import PairsView
from kvscope.top.widgets.requests_view import RequestsView
from kvscope.top.widgets.waterfall_screen import WaterfallScreen

SAID_S = 6.0
"""How long what was done stays in the status line."""


class Arrived(Message):
    """There is a newer picture."""


class Failed(Message):
    """Nothing more will come."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


class Top(App[Exception | None]):
    """Returns the error that ended it, if one did."""

    CSS_PATH = "top.tcss"
    BINDINGS: ClassVar = [Binding(key.keys, key.action, key.meaning, show=False, priority=key.before) for key in KEYS]
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        collector: Collector,
        looks: Looks,
        view: str = "overview",
        listing: Listing | None = None,
        folder: Path | None = None,
    ) -> None:
        super().__init__(ansi_color=True)
        listing = listing or Listing()
        self.views = views(listing)
        self.collector, self.looks, self.folder = collector, looks, folder or Path.cwd()
        self.shown: Snapshot | None = None
        self.newest: Snapshot | None = None
        self.frozen = False
        self.requests, self._pairs = RequestsView("requests", looks, listing), PairsView(looks)
        special: dict[str, ListView | RequestsView] = {"requests": self.requests, "pairs": self._pairs}
        self._pages = {each.name: special.get(each.name) or ListView(each, looks) for each in self.views}
        self.switcher = ContentSwitcher(id="views", initial=view)
        """What holds the views."""
        self._status, self._keys = Line("status"), Line("keys")
        self._said = ""
        self._answer: Callable[[str], None] | None = None
        self._stop = threading.Event()
        self._pending = threading.Event()
        self._reader = threading.Thread(target=self._read, name="kvscope-reader", daemon=True)

    def compose(self) -> ComposeResult:
        """The views, one of which is shown, and three lines at the foot."""
        with self.switcher:
            yield from self._pages.values()
        with Container(id="foot"):
            yield Input(id="question")
            yield self._status
            yield self._keys

    def on_mount(self) -> None:
        """Begin to read."""
        if not self.is_headless:
            end_on_signals(partial(self.exit, None))
        self.app_resume_signal.subscribe(self, lambda _: self.screen.refresh(layout=True))  # what stood there is gone
        self.current.focus()
        self._show_status()
        self._reader.start()

    def on_unmount(self) -> None:
        """Read no more."""
        self._stop.set()

    def finish(self) -> None:
        """Wait until nothing is read any more: cut off inside numpy, a thread takes the whole process down."""
        self._stop.set()
        if self._reader.is_alive():
            self._reader.join()

    # the reading thread

    def _read(self) -> None:
        try:
            self.collector.run(self._stop, self._publish, self._give_up)
        except Exception as error:  # noqa: BLE001 - what is shown would stand still, and still say that it is live
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self.post_message(Failed(error))

    def _publish(self, snapshot: Snapshot) -> None:
        self.newest = snapshot
        if not self._pending.is_set():  # one message at a time, however slow the terminal
            self._pending.set()
            self.post_message(Arrived())

    # pictures

    def on_arrived(self) -> None:
        """Show the newest, unless what is shown is frozen."""
        self._pending.clear()
        if not self.frozen or self.shown is None:
            self.shown = self.newest
            self._show()
        self._show_status()

    def on_failed(self, message: Failed) -> None:
        """End, and have the sentence printed where it stays readable."""
        self.exit(message.error, return_code=2)

    def _show(self) -> None:
        if self.shown is None:
            return
        for view in self._pages.values():
            view.snapshot = self.shown
        if len(self.screen_stack) == 1:
            self.current.show(self.shown)
        elif isinstance(self.screen, WaterfallScreen):
            self.screen.show(self.shown)

    def _show_status(self) -> None:
        self._status.put(status(self.shown, self.newest, self.frozen, self._said))
        self._keys.put(keys(self.current.id or "", self.size.width))

    def say(self, sentence: str) -> None:
        """Put a sentence into the status line for a while."""
        self._said = sentence
        self._show_status()
        self.set_timer(SAID_S, partial(self._unsay, sentence))

    def _unsay(self, sentence: str) -> None:
        if self._said == sentence:
            self._said = ""
            self._show_status()

    @property
    def current(self) -> ListView | RequestsView:
        """The view that is shown."""
        return self._pages[self.switcher.current or "overview"]

    # keys, everywhere

    def action_view(self, name: str) -> None:
        """Show another view, whatever lies over this one."""
        while len(self.screen_stack) > 1:
            self.pop_screen()
        self.switcher.current = name
        self.current.focus()
        self.current.redraw()
        self._show_status()

    def action_turn(self, steps: int) -> None:
        """The next view, or the one before."""
        names = [view.name for view in self.views]
        self.action_view(names[(names.index(self.switcher.current or names[0]) + steps) % len(names)])

    def action_pause(self) -> None:
        """A replay stands still; what is live is frozen on the screen alone."""
        if self.replay:
            place = self.replay.place
            (self.replay.pause if place and place.playing else self.replay.play)()
            return
        self.frozen = not self.frozen
        self.on_arrived()

    def action_suspend_process(self) -> None:
        """Stop until somebody has it go on. No time of a replay passes meanwhile."""
        with self.replay.held() if self.replay else nullcontext():
            super().action_suspend_process()

    def action_help(self) -> None:
        """Every key."""
        if self.shown is not None:
            self.push_screen(HelpScreen(self.shown, self.looks))

    @work(thread=True, exclusive=True)
    def action_save(self) -> None:
        """Save the last minutes; says where."""
        self.call_from_thread(self.say, self._tried(lambda: self.collector.feed.save(self.folder)))

    @work(thread=True, exclusive=True)
    def action_export(self) -> None:
        """Write what is shown; says where."""
        snapshot, view = self.shown, self.current
        if snapshot is not None:
            page = view.made(max(view.size.width, 100))
            sentence = self._tried(lambda: export(page, snapshot, str(view.id), self.folder))
            self.call_from_thread(self.say, sentence)

    def _tried(self, work: Callable[[], str]) -> str:
        try:
            return work()
        except InputError as error:
            return str(error)

    # keys in lists

    def action_move(self, places: int) -> None:
        """Cursor, or scroll."""
        self.current.move(places)

    def action_page(self, pages: int) -> None:
        """By what is shown."""
        self.current.move_page(pages)

    def action_edge(self, direction: int) -> None:
        """To the first or the last."""
        self.current.edge(direction)

    def action_open(self) -> None:
        """What the marked line stands for: a request, or requests."""
        chosen = self.current.chosen() if len(self.screen_stack) == 1 else None
        if self.shown is None or chosen is None:
            return
        if isinstance(chosen, str):
            self.requests.filter(chosen)
            self.action_view("requests")
        else:
            self.push_screen(WaterfallScreen(chosen, self.shown, self.looks))

    def action_filter(self) -> None:
        """Ask which requests to list."""
        self.action_view("requests")
        wanted = self.requests.listing.wanted
        self._ask("filter, such as stage.dispatch>50ms engine=d0", wanted.text if wanted else "", self.requests.filter)

    def action_sort(self, steps: int) -> None:
        """By another figure."""
        self.action_view("requests")
        self.requests.sort(steps)

    def action_reverse(self) -> None:
        """The other way round."""
        self.action_view("requests")
        self.requests.reverse()

    def action_clear(self) -> None:
        """No filter."""
        if self._answer is not None:
            self._end_question()
        elif isinstance(self.current, RequestsView):
            self.requests.filter("")

    def action_figure(self) -> None:
        """Another figure in the matrix of pairs."""
        self.action_view("pairs")
        self._pairs.turn()

    # keys of a replay

    @property
    def replay(self) -> Replay | None:
        """What is played, if anything is."""
        feed = self.collector.feed
        return feed if isinstance(feed, Replay) else None

    def action_step(self, direction: int) -> None:
        """A quarter of a second on or back."""
        if self.replay:
            self.replay.step(direction * STRIDE_S)

    def action_speed(self, direction: int) -> None:
        """Faster or slower."""
        if self.replay:
            (self.replay.faster if direction > 0 else self.replay.slower)()

    def action_seek(self) -> None:
        """Ask for a time."""
        if self.replay:
            self._ask("go to, such as 90s, 1m30s, +10s or -10s", "", partial(seek, self.replay))

    # questions

    def _ask(self, hint: str, text: str, answer: Callable[[str], None]) -> None:
        self._answer = answer
        question = self.screen_stack[0].query_one("#question", Input)
        question.placeholder, question.value = hint, text
        question.add_class("asked")
        question.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Do what was asked; a text that cannot be read stays to be mended."""
        if self._answer is None:
            return
        try:
            self._answer(event.value)
        except InputError as error:
            self.say(str(error))
            return
        self._end_question()

    def _end_question(self) -> None:
        self._answer = None
        self.screen_stack[0].query_one("#question", Input).remove_class("asked")
        self.current.focus()

"""Every key, and the language of the filter."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.screen import Screen

from kvscope.analysis.render.looks import Looks
from kvscope.live.snapshot import Snapshot
from kvscope.top.pages.help import put_help
from kvscope.top.views import still
from kvscope.top.widgets.list_view import ListView


class HelpScreen(Screen[None]):
    """Any of the usual keys leaves it."""

    BINDINGS: ClassVar = [
        ("escape,backspace,q,question_mark,f1,h,enter", "app.pop_screen", "back"),
        ("down,j", "move(1)", "down"),
        ("up,k", "move(-1)", "up"),
        ("pagedown,space", "page(1)", "page down"),
        ("pageup", "page(-1)", "page up"),
        ("home", "edge(-1)", "top"),
        ("end", "edge(1)", "end"),
    ]

    def __init__(self, snapshot: Snapshot, looks: Looks) -> None:
        super().__init__()
        self.view = ListView(still("help", lambda page, _: put_help(page)), looks)
        self.view.snapshot = snapshot

    def compose(self) -> ComposeResult:
        """One page."""
        yield self.view

    def action_move(self, lines: int) -> None:
        """Scroll."""
        self.view.move(lines)

    def action_page(self, pages: int) -> None:
        """Scroll by the height."""
        self.view.move_page(pages)

    def action_edge(self, direction: int) -> None:
        """Scroll to the top or the end."""
        self.view.edge(direction)

    def show(self, snapshot: Snapshot) -> None:
        """It says the same whatever comes."""

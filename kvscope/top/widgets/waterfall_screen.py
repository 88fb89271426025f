"""One request on one axis, over the view it was opened from; one that is under way grows."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from textual.app import ComposeResult
from textual.screen import Screen

from kvscope.analysis.render.looks import Looks
from kvscope.analysis.render.page import Page
from kvscope.analysis.render.palette import QUIET
from kvscope.analysis.render.waterfall import put_waterfall
from kvscope.analysis.steps import steps_beside
from kvscope.live.snapshot import Snapshot
from kvscope.model.splits import Splits
from kvscope.top.views import still
from kvscope.top.widgets.list_view import ListView

GONE = "This request is no longer in the window; this is how it was last seen."


class WaterfallScreen(Screen[None]):
    """Keys z and Escape; arrows scroll."""

    BINDINGS: ClassVar = [
        ("escape,backspace,q", "app.pop_screen", "back"),
        ("z", "zoom", "zoom"),
        ("down,j", "move(1)", "down"),
        ("up,k", "move(-1)", "up"),
        ("pagedown", "page(1)", "page down"),
        ("pageup", "page(-1)", "page up"),
        ("home", "edge(-1)", "top"),
        ("end", "edge(1)", "end"),
    ]

    def __init__(self, key: tuple[int, int], snapshot: Snapshot, looks: Looks) -> None:
        super().__init__()
        self._key, self._seen, self._gone = key, snapshot, False
        self._whole = False
        self.view = ListView(still("waterfall", self._put), looks)
        self.view.snapshot = snapshot

    def compose(self) -> ComposeResult:
        """One page."""
        yield self.view

    def show(self, snapshot: Snapshot) -> None:
        """Another picture: the request as it is there, or as it last was."""
        self._gone = row_of(snapshot.window, self._key) is None
        if not self._gone:
            self._seen = snapshot
        self.view.show(self._seen)

    def action_zoom(self) -> None:
        """The whole axis and every moment, or the part after prefill."""
        self._whole = not self._whole
        self.view.redraw()

    def action_move(self, lines: int) -> None:
        """Scroll."""
        self.view.move(lines)

    def action_page(self, pages: int) -> None:
        """Scroll by the height."""
        self.view.move_page(pages)

    def action_edge(self, direction: int) -> None:
        """Scroll to the top or the end."""
        self.view.edge(direction)

    def _put(self, page: Page, snapshot: Snapshot) -> None:
        page.line("Esc back   z whole axis and every moment, or from the end of prefill   PgDn and PgUp scroll", QUIET)
        row = row_of(snapshot.window, self._key)
        if row is None:
            page.prose(GONE)
            return
        if self._gone:
            page.prose(GONE)
        split = snapshot.window[row]
        put_waterfall(page, split, steps_beside(snapshot.scoped, split), self._whole)


def row_of(window: Splits, key: tuple[int, int]) -> int | None:
    """Where the request is; its leg's partner may not have been known when it was chosen."""
    found = np.flatnonzero(window.request == key[0])
    if not len(found):
        found = np.flatnonzero((window.peer_request == key[0]) & (key[0] != 0))
    return int(found[0]) if len(found) else None

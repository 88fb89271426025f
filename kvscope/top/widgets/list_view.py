"""A page with lines that can be chosen, one of them marked."""

from __future__ import annotations

from collections.abc import Sequence

from textual.events import Click

from kvscope.analysis.render.looks import Looks
from kvscope.analysis.render.page import Page
from kvscope.live.snapshot import Snapshot
from kvscope.top.views import Chosen, View
from kvscope.top.widgets.page_view import PageView

MARKED = "reverse"
"""How pages mark the chosen line."""


class ListView(PageView):
    """Draws a view of the table of views; without lines to choose from, the keys scroll."""

    def __init__(self, view: View, looks: Looks) -> None:
        super().__init__(view.name, looks)
        self._view = view
        self._cursor = 0
        self._marked: int | None = None

    def draw(self, page: Page, snapshot: Snapshot) -> None:
        """As the view says, the cursor on a line that is there."""
        self._cursor = min(self._cursor, max(0, len(self._view.items(snapshot)) - 1))
        self._view.put(page, snapshot, self._cursor)
        marked = [at for at, line in enumerate(page.lines) if line.style == MARKED]
        self._marked = marked[0] if marked else None

    def chosen(self) -> Chosen | None:
        """What the marked line stands for."""
        items: Sequence[Chosen] = self._view.items(self.snapshot) if self.snapshot is not None else ()
        return items[self._cursor] if self._marked is not None and self._cursor < len(items) else None

    def move(self, places: int) -> None:
        """Mark another line and keep it in sight, or scroll."""
        if self._marked is None:
            self.scroll_relative(y=places, animate=False)
            return
        self._cursor = max(0, self._cursor + places)
        self.redraw()
        self._keep_in_sight()

    def move_page(self, pages: int) -> None:
        """By the height."""
        self.move(pages * max(1, self.size.height - 1))

    def edge(self, direction: int) -> None:
        """To the first or the last."""
        if self._marked is None:
            self.scroll_to(y=0 if direction < 0 else self.virtual_size.height, animate=False)
        else:
            self.move(direction * 10**6)

    def on_click(self, event: Click) -> None:
        """Mark the line; a second click opens it."""
        if self._marked is None:
            return
        places = round(self.scroll_offset.y + event.y) - self._marked
        if places:
            self.move(places)
        else:
            self.app.simulate_key("enter")

    def _keep_in_sight(self) -> None:
        if self._marked is None:
            return
        top, rows = round(self.scroll_offset.y), self.size.height
        if not top <= self._marked < top + rows:
            self.scroll_to(y=max(0, self._marked - rows // 2), animate=False)

"""The table of requests, with a cursor that stays on its request while others come."""

from __future__ import annotations

from dataclasses import replace

from textual.events import Click

from kvscope.analysis.render.looks import Looks
from kvscope.analysis.render.page import Page
from kvscope.live.filter import parse_filter
from kvscope.live.listing import Listing
from kvscope.live.snapshot import Snapshot
from kvscope.top.pages.requests import SORTS, Table, put_requests, table_of
from kvscope.top.widgets.page_view import PageView

HEAD = 2
"""Lines above the first row."""
EXPORTED = 500
"""Rows of an export."""


class RequestsView(PageView):
    """Shows as many rows as fit; the cursor moves the part that is shown."""

    def __init__(self, name: str, looks: Looks, listing: Listing) -> None:
        super().__init__(name, looks)
        self.listing = listing
        self._table: Table | None = None
        self._cursor = self._first = 0
        self._key: tuple[int, int] | None = None

    def draw(self, page: Page, snapshot: Snapshot) -> None:
        """List, and keep the cursor where it was."""
        self._table = table = table_of(snapshot, self.listing)
        place = table.place(self._key) if self._key is not None else None
        self._cursor = min(self._cursor if place is None else place, max(0, len(table) - 1))
        rows = max(1, self.size.height - HEAD)
        self._first = min(max(self._first, self._cursor - rows + 1), self._cursor, max(0, len(table) - rows))
        put_requests(page, snapshot, self.listing, table, self._cursor, self._first, rows)

    def chosen(self) -> tuple[int, int] | None:
        """The request under the cursor; None if none is listed."""
        return self._table.at(self._cursor) if self._table is not None and len(self._table) else None

    def move(self, places: int) -> None:
        """Move the cursor; at the top it lets go of its request, so that what is newest stays in sight."""
        if self._table is None or not len(self._table):
            return
        self._cursor = min(max(0, self._cursor + places), len(self._table) - 1)
        self._key = self._table.at(self._cursor) if self._cursor else None
        self.redraw()

    def move_page(self, pages: int) -> None:
        """Move it by what is shown."""
        self.move(pages * max(1, self.size.height - HEAD - 1))

    def edge(self, direction: int) -> None:
        """Move it to the first or the last."""
        self.move(direction * 10**9)

    def sort(self, steps: int) -> None:
        """By the figure before or after in SORTS."""
        at = SORTS.index(self.listing.order) if self.listing.order in SORTS else 0
        self._relist(replace(self.listing, order=SORTS[(at + steps) % len(SORTS)], descending=True))

    def reverse(self) -> None:
        """The other way round."""
        self._relist(replace(self.listing, descending=not self.listing.descending))

    def filter(self, text: str) -> None:
        """Only these. InputError: it cannot be read."""
        self._relist(replace(self.listing, wanted=parse_filter(text) if text.strip() else None))

    def _relist(self, listing: Listing) -> None:
        self.listing, self._key, self._cursor = listing, None, 0
        self.redraw()

    def on_click(self, event: Click) -> None:
        """Put the cursor there; a second click opens."""
        place = self._first + event.y - HEAD
        if self._table is None or not 0 <= place < len(self._table) or event.y < HEAD:
            return
        again = place == self._cursor
        self.move(place - self._cursor)
        if again:
            self.app.simulate_key("enter")

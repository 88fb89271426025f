"""A page of text in a widget: drawn anew when the picture or the width changes, scrolled when it is too long."""

from __future__ import annotations

from rich.text import Text
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from kvscope.analysis.render.looks import Looks
from kvscope.analysis.render.page import Page
from kvscope.live.snapshot import Snapshot

NARROWEST = 60
"""Columns without which no page says anything."""
TOO_NARROW = (
    "This window has {width} columns, and kvscope top needs {least}. Make it wider, or leave (q) and look at one "
    "page at a time: kvscope top --once --width 100 | less -S"
)


class PageView(ScrollView, can_focus=True):
    """Subclasses say what to draw."""

    DEFAULT_CSS = "PageView { scrollbar-size: 0 0; background: transparent; }"

    def __init__(self, name: str, looks: Looks) -> None:
        super().__init__(id=name)
        self.looks = looks
        self.snapshot: Snapshot | None = None
        self._lines: list[Text] = []
        self._strips: list[Strip] = []

    def draw(self, page: Page, snapshot: Snapshot) -> None:
        """Put the view on the page."""
        raise NotImplementedError

    def show(self, snapshot: Snapshot) -> None:
        """Draw another picture, if anyone can see it."""
        self.snapshot = snapshot
        if self.display and self.size.width:
            self.redraw()

    def redraw(self) -> None:
        """Draw the same picture again: its size, or what is chosen in it, has changed."""
        if self.snapshot is None or not self.size.width:
            return
        page = self.made(self.size.width)
        before, size = self._strips, Size(page.width, len(page.lines))
        self._strips = [self._strip(at, line) for at, line in enumerate(page.lines)]
        self._lines = page.lines
        if size != self.virtual_size:
            self.virtual_size = size
            self.refresh()
        elif changed := [at for at, strip in enumerate(self._strips) if strip is not before[at]]:
            top, width = round(self.scroll_offset.y), max(size.width, self.size.width)
            self.refresh(*(Region(0, at - top, width, 1) for at in changed))

    def made(self, width: int) -> Page:
        """The page, for the screen or for an export."""
        assert self.snapshot is not None
        page = self.looks.page(width)
        if width < NARROWEST:
            page.prose(TOO_NARROW.format(width=width, least=NARROWEST))
        else:
            self.draw(page, self.snapshot)
        return page

    def _strip(self, at: int, line: Text) -> Strip:
        """The line as cells; the very strip that was there before if it says the same."""
        before = self._lines[at] if at < len(self._lines) else None
        if before is not None and before == line and before.style == line.style:
            return self._strips[at]
        return Strip(self.looks.cleaned(line).render(self.app.console)).simplify()

    def on_resize(self) -> None:
        """The width has changed."""
        self.redraw()

    def render_line(self, y: int) -> Strip:
        """One line of the part that is scrolled to."""
        across, down = self.scroll_offset
        width, at = self.size.width, y + down
        strip = self._strips[at] if at < len(self._strips) else Strip.blank(width)
        return strip if not across and strip.cell_length == width else strip.crop_extend(across, across + width, None)

"""Showing what is being waited for: phases, each with its elapsed time."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.status import Status

WIDEST_DETAIL = 70


class Progress(Protocol):
    """One phase at a time. A phase ends when the next begins, with `finish`, or with `drop`."""

    def phase(self, title: str) -> None:
        """Begin a phase."""

    def detail(self, text: str) -> None:
        """Say how far the phase is."""

    def finish(self) -> None:
        """End the last phase."""

    def drop(self) -> None:
        """Give the last phase up, if it has not ended."""


class Silent:
    """Shows nothing: for tests and for use as a library."""

    def phase(self, title: str) -> None:
        """Nothing."""

    def detail(self, text: str) -> None:
        """Nothing."""

    def finish(self) -> None:
        """Nothing."""

    def drop(self) -> None:
        """Nothing."""


class Plain:
    """A line when a phase begins and one when it ends: for logs and dumb terminals."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._title = ""
        self._begun = 0.0

    def phase(self, title: str) -> None:
        """Print the title."""
        self.finish()
        self._title, self._begun = title, time.monotonic()
        print(f"{title} ...", file=self._stream, flush=True)

    def detail(self, text: str) -> None:
        """Nothing: a log would fill with it."""

    def finish(self) -> None:
        """Print how long the phase took."""
        if self._title:
            print(f"{self._title}: {time.monotonic() - self._begun:.1f} s", file=self._stream, flush=True)
        self._title = ""

    def drop(self) -> None:
        """Print nothing: the phase did not come to its end."""
        self._title = ""


class Rich:
    """A live line with spinner, elapsed seconds and detail; finished phases stay above it."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False)
        self._status: Status | None = None
        self._title = ""
        self._begun = 0.0

    def phase(self, title: str) -> None:
        """Start a live line."""
        self.finish()
        self._title, self._begun = title, time.monotonic()
        self._status = self._console.status(title)
        self._status.start()

    def detail(self, text: str) -> None:
        """Redraw the live line."""
        if self._status is not None:
            from rich.markup import escape

            short = escape(text.strip()[:WIDEST_DETAIL])
            self._status.update(f"{self._title} [dim]{time.monotonic() - self._begun:.0f} s  {short}[/dim]")

    def finish(self) -> None:
        """Replace the live line by the phase's title and time."""
        if self._status is not None:
            self.drop()
            self._console.print(f"[green]done[/green] {self._title} [dim]{time.monotonic() - self._begun:.1f} s[/dim]")

    def drop(self) -> None:
        """Take the live line away, and give the cursor back."""
        if self._status is not None:
            self._status.stop()
        self._status = None


@contextmanager
def shown(plain: bool) -> Iterator[Progress]:
    """One for this terminal; whatever ends the block, no live line is left behind."""
    progress = chosen(plain)
    try:
        yield progress
    finally:
        progress.drop()


def chosen(plain: bool) -> Progress:
    """`Rich` on a terminal that has it, else `Plain`."""
    return Plain() if plain or not sys.stderr.isatty() else Rich()

"""One thing is made while the one before it is worked on: unpacking leaves a second core nothing to wait for."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Made = TypeVar("Made")


def ahead(made: Iterator[Made]) -> Iterator[Made]:
    """The same in the same order, all of it made on one thread of its own, one ahead of who takes it."""
    with ThreadPoolExecutor(1, "ahead") as thread:
        waiting = thread.submit(next, made, None)
        while (found := waiting.result()) is not None:
            waiting = thread.submit(next, made, None)
            yield found

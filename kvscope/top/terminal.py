"""The terminal that the app takes over: it is the one of standard output, and given back whatever ends the app."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

OUTPUT, ERROR = 1, 2
"""File descriptors."""
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SIGNALLED = 128
"""Added to a signal's number it is the exit code by which a shell tells of it."""


def end_on_signals(end: Callable[[int], None]) -> None:
    """Have `end` called with the exit code. Within a running loop, on the main thread."""
    loop = asyncio.get_running_loop()
    for number in ENDING:
        loop.add_signal_handler(number, end, SIGNALLED + number)


@contextmanager
def drawn_on_output() -> Iterator[None]:
    """Textual draws on standard error. Where that goes elsewhere, have it be standard output meanwhile."""
    if os.isatty(ERROR):
        yield
        return
    kept = os.dup(ERROR)
    os.dup2(OUTPUT, ERROR)
    try:
        yield
    finally:
        os.dup2(kept, ERROR)
        os.close(kept)

"""Ctrl-C and its likes, where half of something must not be left behind."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def undisturbed() -> Iterator[None]:
    """What is in here is done to its end; signals are heard after it. For what takes no time that a person notices."""
    if threading.current_thread() is not threading.main_thread():  # they are heard there alone
        yield
        return
    heard: list[tuple[int, FrameType | None]] = []
    before = {number: found for number in HEARD if callable(found := signal.getsignal(number))}
    for number in before:
        signal.signal(number, lambda number, frame: heard.append((number, frame)))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for told in heard[:1]:
        before[signal.Signals(told[0])](*told)

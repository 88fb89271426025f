"""The loop in its thread: what keeps it from reading is told, and passes."""

from __future__ import annotations

import threading
from typing import ClassVar

import numpy as np
import pytest

from kvscope.live.feed import Batch
from kvscope.metrics.reading import Reading
from kvscope.model.errors import InputError

from ..core.scene import events_of


class Source:
    """Gives nothing, or what it is told to raise; says when it was asked."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.asked = threading.Semaphore(0)

    def __call__(self) -> Batch:
        self.asked.release()
        if self.error is not None:
            raise self.error
        return Batch(events_of([]), 0, 0)

    def polled(self, times: int = 2) -> None:
        """Wait until it was asked so often more: what came of the last time but one has been dealt with."""
        while self.asked.acquire(blocking=False):
            pass
        for _ in range(times):
            assert self.asked.acquire(timeout=30)


def test_a_directory_that_cannot_be_read_is_a_fault_until_it_can() -> None:
    source = Source()
    with Reading(source) as reading:
        source.polled()
        assert reading.fault == ""
        source.error = InputError("it is gone")
        source.polled()
        assert reading.fault == "it is gone"
        assert reading.told().store.table("rings_readable").values[0, 0] == 0
        source.error = None
        source.polled()
        assert reading.fault == ""
        assert reading.told().store.table("rings_readable").values[0, 0] == 1


class Saves:
    """Whoever would save incidents."""

    counts: ClassVar = {"saved": 3}

    def __init__(self) -> None:
        self.savable = True

    def add(self, *_: object) -> None: ...
    def look(self, *_: object) -> None: ...
    def observe(self, *_: object) -> None: ...


def test_whether_an_incident_could_be_saved_is_told_where_any_are() -> None:
    saves = Saves()
    reading = Reading(Source(), observer=saves)
    for savable in (True, False, True):
        saves.savable = savable
        assert reading.told().store.table("incidents_savable").values[0, 0] == float(savable)
    assert np.isnan(Reading(Source()).told().store.table("incidents_savable").values[0, 0])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_loop_that_ended_is_a_fault_for_good() -> None:
    source = Source()
    with Reading(source) as reading:
        source.error = ZeroDivisionError("a fault of our own")
        source.polled(1)
        reading._thread.join(30)
        assert reading.fault == "the thread that reads events has ended"
        store = reading.told().store
        assert store.table("reader_events_total").values[0, 0] == 0, "it can be scraped still"
        assert store.table("rings_readable").values[0, 0] == 0, "what is told is old, and an alert says so"

"""Traces of real pairs: Perfetto's own page says of every request what kvscope says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from docs.pictures.perfetto_page import PerfettoPage, opened
from kvscope.cli import main
from kvscope.core.critical_path import split
from kvscope.lab.load import LoadOptions
from kvscope.sources.opening import open_all
from tests.integration.export import pages

LOAD = LoadOptions(requests=40, rate=4.0, input_tokens=((300, 1.0), (900, 1.0)), output_tokens=6)
CHAINS = {"push": pages.PUSH, "pull": pages.PULL}

SAMPLED = """
SELECT track.name, count(), sum(dur) FROM slice JOIN track ON track.id = track_id WHERE category = 'doing' GROUP BY 1
"""


@contextmanager
def agrees(path: Path, connector: str) -> Iterator[PerfettoPage]:
    """Export a recording that holds every request whole, and ask the page about all of it; it stays open."""
    events = open_all([path], None).events
    requests = list(split(events))
    assert len(requests) >= LOAD.requests
    assert {request.state.value for request in requests} == {"complete"}
    trace = path.with_name("x.pftrace")
    assert main(["export", str(path), "--perfetto", str(trace)]) == 0
    with opened(trace) as page:
        pages.nothing_was_refused(page)
        pages.paths_add_up(page, requests)
        pages.arrows_are_there(page, requests, CHAINS[connector])
        pages.threads_are_named(page, events)
        pages.steps_are_all_there(page, events)
        pages.counters_end_right(page, events)
        yield page

"""Perfetto's own page opens traces of real recordings, and answers what kvscope says of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from docs.pictures.perfetto_page import PerfettoPage, opened
from kvscope.cli import main
from kvscope.core.critical_path import split
from kvscope.model.events import Events
from kvscope.model.requests import RequestSplit
from kvscope.sources.opening import open_all

from . import pages

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PICTURES = Path("docs/pictures")
CHAINS = {"push-early": pages.PUSH, "pull": pages.PULL}


@dataclass(frozen=True)
class Seen:
    """A recording, and the page with its trace."""

    page: PerfettoPage
    events: Events
    requests: list[RequestSplit]
    chain: tuple[str, ...]


@pytest.fixture(scope="module", params=CHAINS)
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    recording = PICTURES / f"{request.param}.kvs"
    trace = tmp_path_factory.mktemp("traces") / "x.pftrace"
    assert main(["export", str(recording), "--perfetto", str(trace)]) == 0
    events = open_all([recording], None).events
    with opened(trace) as page:
        yield Seen(page, events, list(split(events)), CHAINS[request.param])


def test_everything_was_taken(seen: Seen) -> None:
    pages.nothing_was_refused(seen.page)


def test_the_path_of_every_request_adds_up_to_its_ttft(seen: Seen) -> None:
    assert len(seen.requests) == 63
    pages.paths_add_up(seen.page, seen.requests)


def test_arrows(seen: Seen) -> None:
    pages.arrows_are_there(seen.page, seen.requests, seen.chain)


def test_engines_processes_and_threads(seen: Seen) -> None:
    pages.threads_are_named(seen.page, seen.events)


def test_steps(seen: Seen) -> None:
    pages.steps_are_all_there(seen.page, seen.events)


def test_counters(seen: Seen) -> None:
    pages.counters_end_right(seen.page, seen.events)


def test_the_time_of_day(seen: Seen) -> None:
    """What the page shows as absolute time is what the host's clocks said."""
    wall = seen.events.processes[0].wall_ns
    (found,) = seen.page.ask("SELECT ts, clock_value FROM clock_snapshot WHERE clock_name = 'REALTIME'")
    assert found[1] - found[0] == wall
    assert seen.page.ask("SELECT int_value FROM metadata WHERE name = 'cr-kvscope.lost'") == [[0]]


def test_the_keys_that_follow_arrows(seen: Seen) -> None:
    """As docs/perfetto.md has it."""
    chain = seen.chain[-3:]
    ((first,),) = seen.page.ask(
        f"SELECT id FROM slice WHERE category IN ('moment', 'connector') AND name = '{chain[0]}' ORDER BY ts LIMIT 1"
    )
    seen.page.select(first)
    for key, name in (("]", chain[1]), ("]", chain[2]), ("[", chain[1])):
        seen.page.page.get_by_text(f"{'Following' if key == ']' else 'Preceding'} Flows").wait_for()
        seen.page.page.keyboard.press(key)
        seen.page.page.wait_for_function(f"() => window.app.trace.selection.selection.name === '{name}'")


def test_the_queries_of_the_page_about_it(seen: Seen) -> None:
    """Each gives an answer, but for those of a kind of transfer that was not."""
    text = Path("docs/perfetto.md").read_text()
    queries = re.findall(r"```sql\n(.*?)```", text, re.S)
    assert len(queries) >= 6
    for query in queries:
        found = seen.page.ask(query)
        of_push = "registration" in query or "drain" in query
        rare = "'failure'" in query
        assert bool(found) != (rare or (of_push and seen.chain is pages.PULL)), query
        for column in zip(*found, strict=True):
            assert any(value is not None for value in column), f"a name in it is none of the trace's: {query}"


def test_a_chosen_moment_shows_where_it_came_from_and_what_followed(seen: Seen) -> None:
    """The page's own words about a slice, with its arguments and flows."""
    (found,) = seen.page.ask(
        "SELECT id FROM slice WHERE category = 'connector' AND name = 'submit' ORDER BY ts LIMIT 1"
    )
    seen.page.select(found[0])
    seen.page.settle()
    text = seen.page.page.locator("body").inner_text()
    assert "descriptors" in text
    assert "Following Flows" in text

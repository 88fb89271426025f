"""The views: the one list of them, with the function that draws each and what can be chosen in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kvscope.analysis.render.page import Page
from kvscope.live.listing import Listing
from kvscope.live.pairs import MEASURES, Measure
from kvscope.live.snapshot import Snapshot
from kvscope.top.pages.commitment import put_commitment
from kvscope.top.pages.engines import engine_names, put_engines
from kvscope.top.pages.overview import put_overview
from kvscope.top.pages.pairs import pairs_in_words, put_pairs
from kvscope.top.pages.requests import put_requests, table_of
from kvscope.top.pages.stuck import put_stuck, requests_waiting

Chosen = tuple[int, int] | str
"""A request (its key and its peer's) to be drawn, or a filter for the table of requests."""


def nothing(snapshot: Snapshot) -> Sequence[Chosen]:
    """Of a view in which nothing can be chosen."""
    return ()


@dataclass(frozen=True)
class View:
    """One of the pages of `kvscope top`."""

    name: str
    put: Callable[[Page, Snapshot, int], None]
    """Draws it, the line of that place marked; -1: none"""
    items: Callable[[Snapshot], Sequence[Chosen]] = nothing
    """What its lines stand for, by place"""


def still(name: str, put: Callable[[Page, Snapshot], None]) -> View:
    """A view in which nothing can be chosen."""
    return View(name, lambda page, snapshot, _: put(page, snapshot))


def engines() -> View:
    """An engine opens its requests."""
    return View("engines", put_engines, lambda snapshot: [f"engine={name}" for name in engine_names(snapshot)])


def pairs(measure: Measure = MEASURES[0]) -> View:
    """A pair opens its requests."""

    def put(page: Page, snapshot: Snapshot, cursor: int) -> None:
        put_pairs(page, snapshot, measure, cursor=cursor)

    def items(snapshot: Snapshot) -> list[Chosen]:
        return [f"prefill={prefill} decode={decode}" for prefill, decode in pairs_in_words(snapshot, measure)]

    return View("pairs", put, items)


def requests(listing: Listing) -> View:
    """The whole table, as it is printed; on the screen it is a widget of its own."""

    def put(page: Page, snapshot: Snapshot, cursor: int) -> None:
        put_requests(page, snapshot, listing, table_of(snapshot, listing), cursor)

    return View("requests", put)


def views(listing: Listing) -> tuple[View, ...]:
    """All of them, in the order of their keys; `listing`: which requests the table shows."""
    return (
        still("overview", put_overview),
        engines(),
        pairs(),
        requests(listing),
        View("stuck", put_stuck, requests_waiting),
        still("commitment", put_commitment),
    )

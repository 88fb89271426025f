"""Whatever a router calls a request, its pages are as wide, as long and as soon drawn as those of any other."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from functools import cache

import pytest
from rich.cells import cell_len

from kvscope.analysis.handles import LONGEST, handle_of, shown
from kvscope.analysis.render.fleet import put_report
from kvscope.analysis.render.page import Page
from kvscope.analysis.render.waterfall import put_waterfall
from kvscope.live.listing import Listing
from kvscope.live.snapshot import Snapshot
from kvscope.top.views import views

from ..live.fleet import request, stretch
from ..live.picture import Items, picture
from .states import PAIR, flat

LONG = "abcdefgh" * 1_250_000
STRANGE = {
    "long": LONG,
    "wide": "\u6f22\u5b57" * 30,
    "backwards": "\u05d0\u05d1\u0645" * 30,
    "combining": "e\u0301" * 40,
    "steering": "\x1b[2J\r\n\t\u202e\u200b" * 10,
}
WIDTHS = (60, 100, 300)


@cache
def seen(strange: str) -> Snapshot:
    """Some usual requests; one slow, one unfinished and one that failed, whose ids are strange."""

    def named(items: Items) -> Items:
        return [
            {
                key: f"{STRANGE[strange]}{text}" if key in ("request", "peer") and text else text
                for key, text in item.items()
            }
            for item in items
        ]

    unfinished = [item for item in request("early", 901, 1_000) if item["t"] < 1_060_000_000]
    items = [*PAIR, *flat(stretch("early", 0, 2)), *named(request("early", 900, 500, 900)), *named(unfinished)]
    return picture(items, 15)


def pages(snapshot: Snapshot, width: int) -> dict[str, Page]:
    """Every page on which an id may stand."""
    found = {view.name: Page(width) for view in views(Listing())}
    for view in views(Listing()):
        view.put(found[view.name], snapshot, 0)
    for row in range(len(snapshot.window)):
        found[f"request {row}"] = Page(width)
        put_waterfall(found[f"request {row}"], snapshot.window[row], {})
    found["report"] = Page(width)
    put_report(found["report"], snapshot.summary)
    return found


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("strange", STRANGE)
def test_pages_stay_as_wide_and_as_long(strange: str, width: int) -> None:
    for name, page in pages(seen(strange), width).items():
        assert len(page.lines) < 200, name
        for line in page.lines:
            assert cell_len(line.plain) == len(line.plain), name
            assert all(unicodedata.bidirectional(each) not in ("R", "AL", "AN", "RLO") for each in line.plain), name
            assert len(line.plain) <= width or line.plain.startswith("next "), name


def test_an_id_that_is_cut_says_so() -> None:
    page = pages(seen("long"), 300)
    unfinished = next(line.plain for line in page["report"].lines if "oldest" in line.plain)
    assert "abcdefghabc" in unfinished
    assert ".." in unfinished
    assert shown("x" * LONGEST) == "x" * LONGEST
    assert shown("x" * (LONGEST + 1)) == "x" * (LONGEST - 2) + ".."
    assert shown("x" * 10, 6) == "xxxx.."


@pytest.mark.parametrize("strange", STRANGE)
def test_a_handle_is_short_and_means_its_request(strange: str) -> None:
    window = seen(strange).window
    slow = int(window.ttft.argmax())
    handle = handle_of(window, slow)
    assert len(handle) <= LONGEST
    assert window.find(handle) == [slow]


def test_a_command_line_holds_the_handle_as_one_word() -> None:
    snapshot = seen("wide")
    summary = replace(snapshot.summary, slowest=(("$(reboot) x", snapshot.window[0]),))
    page = Page(100)
    put_report(page, summary)
    assert page.lines[-1].plain.endswith("kvscope request '$(reboot) x'")

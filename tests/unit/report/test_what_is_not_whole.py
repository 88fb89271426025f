"""Nothing, one, one side, unfinished, incomplete: said plainly, at every width."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvscope.analysis.document import request_object
from kvscope.analysis.render.fleet import put_report
from kvscope.analysis.render.page import Page
from kvscope.analysis.render.waterfall import put_waterfall
from kvscope.analysis.steps import steps_beside
from kvscope.analysis.summary import Summary, gather_summary
from kvscope.core.critical_path import split
from kvscope.core.hosts import ALONE, Hosts
from kvscope.model.requests import State

from .scenes import EARLY, LATE, MS, Item, events_of, fleet, request, started

WIDTHS = (60, 100, 300)
REGISTERED: dict[str, dict[str, float]] = {
    "prefill": {},
    "decode": {"arrived": 2, "taken": 3, "queued": 3, "reserved": 4, "handed": 5, "registration_sent": 6},
}


def page_of(summary: Summary, width: int = 100) -> str:
    page = Page(width)
    put_report(page, summary, arguments="some.jsonl")
    return "\n".join(line.plain for line in page.lines)


def summarise(items: list[Item], hosts: Hosts | None = None) -> Summary:
    events = events_of(items)
    return gather_summary(events, split(events, hosts=hosts))


def without(items: list[Item], **field: str) -> list[Item]:
    return [item for item in items if any(item.get(name) != value for name, value in field.items())]


def dark_decode() -> list[Item]:
    """The decode engine is told of and records nothing."""
    items = without(started() + request(EARLY), leg="decode")
    return [item for item in items if item.get("engine") != "d0"]


def hung() -> list[Item]:
    """Registered and never written."""
    return started() + request(EARLY, 0) + request(REGISTERED, 7, begin=100)


def two_clocks(ahead: int = 40 * 365 * 86_400_000 * MS) -> list[Item]:
    """Prefill and decode on two hosts, decode's up for 40 years longer."""
    items = started() + request(EARLY) + request(REGISTERED, 7, begin=100)
    there = {"host": "boot-b"}
    return [
        {**item, **there, "t": item["t"] + ahead} if item["engine"] == "d0" else {**item, "host": "boot-a"}
        for item in items
    ]


CASES: dict[str, Callable[[], list[Item]]] = {
    "nothing": started,
    "one": lambda: started() + request(EARLY),
    "one side": dark_decode,
    "unfinished": hung,
    "incomplete": lambda: without(started() + request(EARLY), moment="prepared"),
    "many": lambda: fleet(EARLY, 30),
    "untold": lambda: request(EARLY),
    "two clocks": two_clocks,
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", CASES)
def test_a_report_fits_its_page_in_ascii(case: str, width: int) -> None:
    text = page_of(summarise(CASES[case]()), width)
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= width
    assert text.startswith("kvscope report")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", [name for name in CASES if name != "nothing"])
def test_a_waterfall_fits_its_page_in_ascii(case: str, width: int) -> None:
    events = events_of(CASES[case]())
    for found in split(events):
        page = Page(width)
        put_waterfall(page, found, steps_beside(events, found), every=True)
        text = "\n".join(line.plain for line in page.lines)
        assert text.isascii()
        assert max(map(len, text.splitlines())) <= width
        assert found.request in text


def test_no_request_says_what_to_do() -> None:
    assert "`kvscope doctor`" in page_of(summarise(started()))


def test_one_side_alone_gives_its_stages_and_no_ttft() -> None:
    text = page_of(summarise(dark_decode()))
    assert "one-legged 1" in text
    assert "seen only from:  prefill p0 (1)" in text
    assert "MEASURED, ONE SIDE" in text
    assert "prefill_run 100" in text
    assert "p95" not in text


def test_a_hung_push_stands_beside_the_percentiles() -> None:
    summary = summarise(hung())
    text = " ".join(page_of(summary).split())
    assert "unfinished: 1, in no percentile; oldest 1.29 s" in text
    assert "cmpl-00000007-0-bbbbbbbb" in text
    assert "decode registration_sent (1)" in text
    assert summary.condition.timed == 1
    assert summary.bands[-1].percentile_ns == 136 * MS


def test_a_missing_moment_is_named() -> None:
    items = without(started() + request(EARLY), moment="prepared")
    text = page_of(summarise(items))
    assert "missing:  prepared (1)" in text
    assert "No request is complete" in text
    found = split(events_of(items))[0]
    page = Page(100)
    put_waterfall(page, found, {})
    assert "MISSING prepared" in "\n".join(line.plain for line in page.lines)


def test_settings_that_differ_are_pointed_out() -> None:
    items = started()
    items[1]["started"]["vllm"] = "0.33.0"
    assert "differs: vLLM: 0.32.0 on p0; 0.33.0 on d0" in page_of(summarise(items + request(EARLY)))


def test_clocks_of_several_hosts_are_not_trusted() -> None:
    """No length of time across them anywhere, and the requests by name."""
    text = " ".join(page_of(summarise(two_clocks(), ALONE)).split())
    assert "2 hosts (boot-a, boot-b) whose clocks were not aligned" in text
    assert "unaligned 1" in text
    where = "prefill p0 on boot-a, decode d0 on boot-b"
    assert f"clocks not aligned, in no percentile: {where}: cmpl-00000000-0-bbbbbbbb (1)" in text
    assert "No request can be timed" in text
    assert not [word for word in text.split() if word.replace(",", "").replace(".", "").isdigit() and len(word) > 9]
    assert "CLOCK" not in page_of(summarise(started() + request(EARLY)))


def test_a_percentile_holds_requests_of_one_clock_only() -> None:
    one_host = [{**item, "host": "boot-a"} for item in request(EARLY, 5) if item["leg"]]
    one_host = [{**item, "engine": item["engine"].replace("0", "1")} for item in one_host]
    one_host = [{**item, "peer_engine": "d1"} if "peer_engine" in item else item for item in one_host]
    found = summarise(two_clocks() + one_host, ALONE)
    assert (found.condition.timed, found.condition.states[State.UNALIGNED]) == (1, 1)
    assert found.bands[-1].percentile_ns == 136 * MS
    assert found.condition.seconds < 2
    assert found.price.reserved.requests == 2, "those of one clock, and the hung one, which lies on one"
    assert found.price.regret.judged == 0


def test_an_unaligned_request_lists_its_moments_leg_by_leg() -> None:
    (found,) = (each for each in split(events_of(two_clocks()), hosts=ALONE) if each.state is State.UNALIGNED)
    page = Page(100)
    put_waterfall(page, found, {})
    text = "\n".join(line.plain for line in page.lines)
    assert "UNALIGNED: its legs were stamped on hosts whose clocks were not aligned" in " ".join(text.split())
    moments = [line.split() for line in text.partition("MOMENTS")[2].splitlines()[1:]]
    assert [leg for _, leg, *_ in moments] == ["P"] * 15 + ["D"] * 12
    assert [float(ms) for ms, _, moment, *_ in moments if moment in ("arrived", "computed", "first_token")] == [
        *(0, 105),
        *(0, 134),
    ]


def between_hosts(ahead: int) -> list[Item]:
    """Pushes that tell each way how far decode's clock is ahead: registered late, so that they say it well."""
    there = {"host": "boot-b"}
    items = started() + [item for number in range(5) for item in request(LATE, number, begin=number * 1000)]
    return [
        {**item, **there, "t": item["t"] + ahead} if item["engine"] == "d0" else {**item, "host": "boot-a"}
        for item in items
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_times_between_hosts_are_told_with_what_they_are_worth(width: int) -> None:
    events = events_of(between_hosts(3_600_000 * MS))
    splits = split(events)
    summary = gather_summary(events, splits)
    text = page_of(summary, width)
    assert max(map(len, text.splitlines())) <= width
    text = " ".join(text.split())
    assert "2 hosts (boot-a, boot-b), compared by the messages between them: 5 timed requests" in text
    assert "ahead of boot-a within 3.00 ms" in text
    assert "5 messages there and 5 back" in text
    assert "# registration_flight ~ 3.0" in text
    assert "not longer than it may be wrong by (~): notice (5), registration_flight (5)" in text
    page = Page(width)
    put_waterfall(page, splits[0], steps_beside(events, splits[0]))
    lines = [line.plain for line in page.lines]
    assert max(map(len, lines)) <= width
    assert "dispatch, registration_flight, notice and TTFT may be wrong by 3.0" in " ".join("\n".join(lines).split())
    assert [line.split()[1:3] for line in lines if " ~ " in line] == [["registration_flight", "~"], ["notice", "~"]]
    assert request_object(splits[0])["clock_bound_ns"] == splits.clock_bound[0] > 2 * MS
    told = {span["stage"]: (span["bound_ns"] > 0, span["uncertain"]) for span in request_object(splits[0])["path"]}
    assert (told["dispatch"], told["notice"], told["prefill_run"]) == ((True, False), (True, True), (False, False))


def test_clean_ups_of_an_api_server_are_told_beside_the_requests() -> None:
    mine = {"engine": "d0", "leg": "decode", "request": "9f587b005d039c5d"}
    cleanup = [{**mine, "t": 500 * MS, "moment": "queued", "cleanup": True, "tokens": 1}]
    cleanup += [{**mine, "t": 500 * MS + 9, "moment": moment} for moment in ("finished", "released")]
    text = " ".join(page_of(summarise(started() + request(EARLY) + cleanup)).split())
    assert "complete 1 of 1 (100%)" in text
    assert "1 clean-up by API servers, no requests" in text


def test_what_was_not_told_is_said() -> None:
    text = page_of(summarise(request(EARLY)))
    assert "versions and settings are unknown" in text
    assert "share not known: no engine told its KV blocks" in text


def test_a_lost_half_and_a_stray_record_have_names_of_their_own() -> None:
    alone = [item for item in request(EARLY) if item["leg"] == "prefill" and item["moment"] != "matched"]
    text = page_of(summarise(started() + alone))
    assert "unmatched 1" in text
    assert "strays" not in text
    stray = {"t": 5 * MS, "engine": "router", "leg": "router", "moment": "received", "request": "nobody-s"}
    text = page_of(summarise(started() + request(EARLY) + [stray]))
    assert "unmatched 0" in text
    assert "strays 1" in text


def test_losses_are_shown_where_the_numbers_are() -> None:
    items = started()
    items[0]["lost"] = 41
    assert "lost 41" in page_of(summarise(items + request(EARLY)))


def test_blocks_still_held_count_as_idle() -> None:
    items = started() + request(EARLY) + request(REGISTERED, 7, begin=396)
    for item in items:
        if item.get("moment") == "reserved":
            item["blocks"] = 100
    found = summarise(items).price.reserved
    assert found.still == 1
    assert found.block_s is not None
    assert found.block_s == pytest.approx((0.116 + (1.396 - 0.400)) * 100)
    assert found.capacity == pytest.approx(found.block_s / (4_000 * 1.396))

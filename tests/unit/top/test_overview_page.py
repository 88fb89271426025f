"""The overview: whatever the state, it fits, it adds up, it says what a report says, and nothing that is not known."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

import pytest

from kvscope.analysis.render import fleet
from kvscope.analysis.render.page import Page
from kvscope.live.collector import Settings
from kvscope.live.feed import Flow
from kvscope.live.snapshot import Snapshot
from kvscope.model.events import Process
from kvscope.model.requests import State
from kvscope.top.pages.overview import put_overview

from ..core.scene import D_LEG, P_LEG, moment
from ..live.fleet import request, stretch
from ..live.picture import Items, picture
from ..live.test_collector import pictures
from .states import (
    PAIR,
    SECOND,
    STATES,
    WALL,
    changed,
    early,
    flat,
    fleet_of_six,
    hung,
    incomplete,
    without_decode,
    without_prefill,
)

WIDTHS = (60, 71, 80, 100, 140, 300)


def drawn(snapshot: Snapshot, width: int = 100) -> list[str]:
    page = Page(width)
    put_overview(page, snapshot)
    return [line.plain for line in page.lines]


def text(snapshot: Snapshot, width: int = 100) -> str:
    return " ".join(" ".join(drawn(snapshot, width)).split())


def row(lines: list[str], name: str) -> str:
    return next(line for line in lines if line.startswith(name))


def numbers(line: str) -> list[float]:
    """Of a row of the table: exact, mean, and six classes."""
    return [float(cell.replace(",", "")) for cell in line[7:].split()[:8]]


def turned(lines: list[str], name: str) -> str:
    """A row of the table where it stands on its side."""
    at = next(at for at, line in enumerate(lines) if line.startswith("TTFT ms"))
    columns = zip(*(line[7:].replace("was p95", "was_p95").split() for line in lines[at : at + 9]), strict=True)
    return "       ".join(next(column for column in columns if column[0] == name.replace(" ", "_")))


@pytest.fixture(scope="module", params=STATES)
def state(request: pytest.FixtureRequest) -> tuple[str, Snapshot]:
    return request.param, STATES[request.param]()


def test_it_fits_its_page_in_ascii(state: tuple[str, Snapshot]) -> None:
    for width in WIDTHS:
        lines = drawn(state[1], width)
        assert all(line.isascii() for line in lines)
        assert max(map(len, lines)) <= width
        assert lines[0].startswith("kvscope top")


def test_all_of_it_is_on_a_small_screen(state: tuple[str, Snapshot]) -> None:
    """A terminal of 24 lines leaves 22 for a view; the last ones may be beyond it where a verdict takes its time."""
    lines = drawn(state[1], 80)
    if state[0] == "changed by minutes":  # numbers so long that the table is turned, which takes three lines more
        return
    assert len(lines) <= 24
    if "p95" in text(state[1], 80):
        assert next(at for at, line in enumerate(lines) if line.startswith("trouble")) < 23


def test_parts_add_up_as_printed(state: tuple[str, Snapshot]) -> None:
    if not state[1].summary.bands:
        return
    for width in (60, 80, 100, 300):
        lines = drawn(state[1], width)
        for name in ("p50", "p95", "p99", "was p95", "change"):
            line = row(lines, f"{name} ") if any(line.startswith("p50") for line in lines) else turned(lines, name)
            if line[7:].split()[:2] == ["-", "-"]:
                continue
            _, mean, *classes = numbers(line)
            assert sum(classes) == pytest.approx(mean, abs=0.01)


def test_the_change_is_the_difference_of_what_is_printed() -> None:
    for width in (80, 140):
        lines = drawn(changed(), width)
        now, was, change = (numbers(row(lines, name)) for name in ("p95 ", "was p95", "change"))
        assert [round(a - b, 1) for a, b in zip(now, was, strict=True)] == change


def test_the_headline_is_that_of_a_report_of_the_same_requests(state: tuple[str, Snapshot]) -> None:
    summary = state[1].summary
    if not summary.bands:
        return
    page = Page(2_000)
    fleet.put_report(page, summary)
    headline = next(line.plain for line in page.lines if line.plain.startswith(">>"))
    assert next(line for line in drawn(state[1], 2_000) if line.startswith(">>")).startswith(headline)


def test_no_line_moves_while_numbers_change() -> None:
    """One picture after another of the same traffic, and one with a state that it did not have before."""
    places = []
    for shown in (early(5), early(9), changed(), STATES["no traffic"]()):
        lines = drawn(shown)
        places.append(
            [at for at, line in enumerate(lines) if re.match(r"TTFT|p95|was|coord|price|runn|troub|odd", line)]
        )
    assert all(each == places[0] for each in places)
    slots = [
        [row(drawn(shown), label).index(word) for label, word in (("price", "regret"), ("trouble", "stuck"))]
        for shown in (early(5), changed(), STATES["no traffic"]())
    ]
    assert all(each == slots[0] for each in slots)


def test_a_change_is_dated_and_compared_with_what_was() -> None:
    shown = replace(changed(), wall_ns=WALL)
    assert shown.regime is not None
    assert shown.regime.since is not None
    when = datetime.fromtimestamp((WALL + shown.regime.since) // SECOND).strftime("%H:%M:%S")
    page = text(shown)
    assert f"So since {when}. Decode is called after prefill returns since {when} (before: early)." in page
    lines = drawn(shown)
    assert numbers(row(lines, "was p95"))[0] == 136.0
    assert re.search(r"99\.\d% of it coordination", row(lines, "change"))
    assert "(was 7.0..10.0)" in row(lines, "coordination")
    assert "registered before staged 0% (was 100%)" in page


def test_without_a_time_of_day_seconds_since_the_start_are_told() -> None:
    shown = changed()
    assert re.search(r"So since 2\d\.\d s after the start\.", text(shown))
    assert "LIVE 40.0 s" in drawn(shown)[0]
    assert "So since before the start of data." in text(early())
    since_start = text(replace(early(), wall_ns=WALL))
    assert re.search(r"So since before \d\d:\d\d:\d\d \(start of data\)\.", since_start)


def test_shares_are_of_what_is_over_as_in_a_report() -> None:
    hanging = [each for each in flat(stretch("early", 5, 6)) if each["moment"] in ("arrived", "taken", "queued")]
    shown = picture([*PAIR, *flat(stretch("early", 0, 3)), *hanging], 7)
    report = Page(300)
    fleet.put_report(report, shown.summary)
    assert shown.summary.condition.requests == 40
    assert "complete 30 of 30 (100%)" in next(line.plain for line in report.lines if line.plain.startswith("DATA"))
    assert "complete 100% of 30 " in text(shown)


def test_where_a_jump_looks_back_to_is_no_start_of_data() -> None:
    shown = early()
    assert shown.begun is not None
    jumped = text(replace(shown, wall_ns=WALL, first=shown.begun - 90 * 10**9))
    assert re.search(r"So since before \d\d:\d\d:\d\d \(as far as a jump looks back\)\.", jumped)
    assert "start of data" not in jumped
    untold = text(replace(shown, first=shown.begun - 90 * 10**9))
    assert re.search(r"So since before 90\.\d s after the start \(as far as a jump looks back\)\.", untold)
    assert "start of data" in text(replace(shown, wall_ns=WALL, first=shown.begun))


def test_what_was_is_not_known_before_anything_changed() -> None:
    lines = drawn(early())
    assert set(row(lines, "was p95")[7:].split()) == {"-"}
    assert set(row(lines, "change")[7:].split()) == {"-"}
    assert "(was" not in row(lines, "coordination")


def test_who_is_slow_and_who_is_odd_are_named() -> None:
    page = text(fleet_of_six())
    assert "Concentrated on decode d-3, of 6:" in page
    assert "d-3 step 71.0 ms (peers 57.0 ms)" in page
    assert "d-2 free 9.0% (peers 60%)" in page


def test_with_one_pair_nothing_is_even_and_nobody_is_odd() -> None:
    page = text(early())
    assert "Only one pair of engines is seen." in page
    assert "Even" not in page
    assert "it takes three engines of a role" in page


def test_a_router_alone_is_no_engine() -> None:
    assert "NO ENGINE so far: only a router is heard." in text(STATES["only a router"]())


def test_no_engine_says_what_to_do() -> None:
    page = text(picture([], 1))
    assert "No instrumented engine" in page
    assert "kvscope doctor" in page
    assert "kvscope lab run" in page
    replayed = text(replace(picture([], 1), flow=Flow.REPLAY))
    assert "doctor" not in replayed


def test_engines_without_traffic_are_counted() -> None:
    page = text(STATES["no traffic"]())
    assert "P 1/1 D 1/1" in page
    assert "NO REQUEST so far: 2 engines record" in page
    assert "kvscope doctor" in page
    gone = text(STATES["traffic gone"]())
    assert "NO REQUEST in the last 1 min" in gone
    assert "The last first token came at 3.0 s after the start." in gone


def test_engines_that_are_not_instrumented_are_named_with_the_reason() -> None:
    dark = Process("d-9", started={"role": "kv_consumer"}, note="vLLM 0.99 is not supported")
    shown = picture([*PAIR, *flat(stretch("early", 0, 3))], 5, dark=(dark,))
    assert "D 1/2" in drawn(shown)[0]
    assert "d-9 not instrumented (vLLM 0.99 is not supported)" in text(shown)
    assert "NO ENGINE RECORDS: 1 engine is known and does not." in text(picture([], 5, dark=(dark,)))


@pytest.mark.parametrize(
    ("shown", "sides", "seen", "stage", "unknown"),
    [
        (without_prefill, "P 0/1+ D 1/1", "decode d0", "read_handoff", "when prefill queued"),
        (without_decode, "P 1/1 D 0/1+", "prefill p0", "prefill_run 100.0", "what happens on decode"),
    ],
)
def test_one_side_alone_gives_its_stages_and_says_what_is_not_known(
    shown: Callable[[], Snapshot], sides: str, seen: str, stage: str, unknown: str
) -> None:
    page = text(shown())
    assert sides in page
    assert "ONLY ONE SIDE is instrumented" in page
    assert f"one-legged: seen from {seen}" in page
    assert stage in page
    assert f"It cannot be known {unknown}" in page
    assert "was p95" not in page


def prefill_alone(parts: list[Items]) -> Items:
    return [{**item, "peer_engine": "d0"} for item in flat(parts) if item["engine"] != "d0"]


def test_a_request_that_nobody_took_over_does_not_hide_that_one_side_is_dark() -> None:
    left = [item for item in request("early", 99, 2_000) if item["leg"] == "prefill" and item["t"] < 2_109_000_000]
    left = [item for item in left if item["moment"] not in ("registration_received", "matched", "post_begun")]
    items = [
        *prefill_alone(stretch("early", 0, 5)),
        *left,
        moment({**P_LEG, "request": left[0]["request"]}, "released", 9_000),
    ]
    shown = picture(items, 12)
    assert shown.summary.condition.states[State.UNMATCHED] == 1
    assert "ONLY ONE SIDE is instrumented: 50 of 51 requests were seen from prefill alone." in text(shown)


def test_traffic_of_one_side_that_is_gone_was_there() -> None:
    gone = text(pictures([prefill_alone(stretch("early", 0, 3))], 66)[-1])
    assert "NO REQUEST in the last 1 min" in gone
    assert "One was last seen at 3.0 s after the start, without a first token." in gone


def test_hung_requests_alone_are_no_percentile() -> None:
    page = text(hung())
    assert (
        "NO TTFT to split: 5 without a first token (oldest 30.0 s; last moment decode registration_sent in 5)" in page
    )
    assert "stuck 5" in page
    assert "unfinished 5 (oldest 30.0 s)" in page


def test_what_is_missing_is_named_and_impairs_the_data() -> None:
    page = text(incomplete())
    assert "DATA impaired" in page
    assert "missing: prepared (50)" in page
    assert "NO TTFT to split: 50 requests not seen whole." in page


def test_good_data_are_called_so_and_lost_events_are_not_good() -> None:
    assert row(drawn(early()), "DATA").startswith("DATA good")
    lossy = picture([{**PAIR[0], "lost": 41}, *PAIR[1:], *flat(stretch("early", 0, 3))], 5)
    assert row(drawn(lossy), "DATA").startswith("DATA impaired")
    assert "lost 41" in text(lossy)


def test_what_is_good_to_know_of_the_source_impairs_nothing() -> None:
    whole = picture([*PAIR, *flat(stretch("early", 0, 3))], 5)
    noted = replace(whole, notes=("a.kvs was not ended",))
    assert row(drawn(noted), "DATA").startswith("DATA good")
    assert "a.kvs was not ended" in text(noted)
    assert row(drawn(replace(whole, faults=("a.kvs is damaged",))), "DATA").startswith("DATA impaired")


def on_two_hosts(shape: str) -> Items:
    """Thirty requests."""
    return [{**item, "host": "a" if item["engine"] == "d0" else "b"} for item in flat(stretch(shape, 0, 3))]


def test_clocks_of_two_hosts_are_as_good_as_their_messages() -> None:
    page = text(picture(on_two_hosts("early"), 5))
    assert "DATA impaired complete 100%" in page
    assert "clocks of 2 hosts within 51.0 ms" in page
    assert "times between hosts may be wrong by 51.0 ms, and no longer than that: dispatch, notice, " in page


def test_requests_between_clocks_are_told_apart_as_a_report_does() -> None:
    one_way = [item for item in on_two_hosts("pull") if item["moment"] != "released"]
    shown = picture(one_way, 75, Settings(window_ns=100 * SECOND))
    report = Page(300)
    fleet.put_report(report, shown.summary)
    data = next(line.plain for line in report.lines if line.plain.startswith("DATA"))
    assert "incomplete 0 " in data
    assert "unaligned 30 " in data
    page = text(shown)
    assert "clocks of 2 hosts NOT ALIGNED" in page
    assert "incomplete 0%" in page
    assert "no TTFT of 30 requests between clocks that were not aligned" in page
    assert "NO TTFT to split: 30 requests between clocks that were not aligned." in page
    assert "not seen whole" not in page


def test_what_is_left_out_is_said() -> None:
    shown = picture([*PAIR, *flat(stretch("early", 0, 3))], 5, Settings(without="r000"))
    assert "complete 100% of 20" in text(shown)
    assert "left out: requests with 'r000' in the id" in text(shown)
    assert "left out" not in text(early())


def test_a_lost_source_makes_everything_old() -> None:
    lines = drawn(STATES["lost"](), 80)
    assert "LOST" in lines[0]
    assert lines[1].startswith("DATA old")
    assert "nothing from the aggregator for 14 s" in " ".join(lines)


def test_a_replay_says_where_it_stands() -> None:
    assert "REPLAY 6.0 s" in drawn(replace(early(), flow=Flow.REPLAY))[0]
    assert "REPLAY PAUSED 6.000 s" in drawn(replace(early(), flow=Flow.PAUSED))[0]
    assert "REPLAY ENDED" in drawn(STATES["ended"]())[0]


def test_objectives_are_judged_or_one_is_told_how_to_set_them() -> None:
    judged = text(STATES["changed, with objectives"]())
    assert "TTFT 800 ms met 100%" in judged
    assert re.search(r"TPOT 30\.0 ms met \d+%", judged)
    assert "goodput" in judged
    assert "--slo" not in judged
    assert "SLO not set (--slo ttft=1s sets one)" in text(early())
    assert "SLO not set (--slo)" in text(early(), 80)


def test_by_which_thread_posts_are_made_is_told_or_not_known() -> None:
    assert "posting thread -" in row(drawn(early()), "price")
    assert "writer posts 100%" in row(drawn(STATES["push, early"]()), "price")
    report = Page(100)
    fleet.put_report(report, early().summary)
    assert "thread not told: 2.00 ms on average" in next(x.plain for x in report.lines if x.plain.startswith("post "))


def test_few_requests_are_called_few() -> None:
    page = text(STATES["few"]())
    assert "Of 3 requests p95 and p99 are the slowest." in page
    assert "Too few requests to say since when." in page
    assert "slowest" not in text(early())


def test_failures_are_rates_of_the_window() -> None:
    leg = {**D_LEG, "request": "cmpl-f-0-bbbbbbbb"}
    failed = [
        *(moment(leg, name, 1_000) for name in ("arrived", "taken", "queued", "reserved")),
        moment(leg, "failed", 1_100, reason="registration_expired"),
        moment(leg, "finished", 1_200, reason="error"),
    ]
    line = row(drawn(picture([*PAIR, *failed, *flat(stretch("early", 0, 10))], 30)), "trouble")
    assert line.split()[1:5] == ["failures", "2.0/min", "expired", "2.0/min"]


def test_a_decode_engine_that_nobody_sees_makes_the_data_partial_and_is_said_to_hide_ttfts() -> None:
    """One of two is instrumented."""
    hidden = [{**item, "peer_engine": "d9"} for item in flat(stretch("early", 0, 3, first=1000))]
    page = text(picture([*flat(stretch("early", 0, 3)), *(item for item in hidden if item["engine"] != "d0")], 12))
    assert "D 1/2+" in page
    assert "DATA in part complete 50% of 60 one-legged 50%" in page
    assert "one-legged: seen from prefill p0 (30); without the other side no TTFT" in page
    assert "leads TTFT" in page

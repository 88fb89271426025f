"""`kvscope top` on real push engines under load, as whoever sits before it sees it: there, and from elsewhere."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic_ns

import pytest

from kvscope.lab import dispatch
from kvscope.lab.client import ClientRecord
from kvscope.lab.front import RouterProcess
from kvscope.lab.load import LoadOptions
from kvscope.lab.pair import PairOptions
from kvscope.live.regime import AFTER, EARLY, MANNER, Manner
from tests.lab.bystanders import watching
from tests.lab.rig import Rig, decoding, kill, prefilled, prompt, with_env
from tests.lab.screens import (
    agrees_with_the_report,
    drawn_for,
    over,
    percentiles,
    printed,
    says,
    served,
    top,
    top_from_elsewhere,
    verdict,
    window_s,
)
from tests.lab.terminal import Terminal, flat, needs_tmux

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900), needs_tmux]

SHORT = LoadOptions(requests=60, rate=5.5, input_tokens=((300, 1.0), (500, 1.0)), output_tokens=8, warm_up=1)
CHANGES = ((AFTER, "sequential"), (EARLY, "early"), (AFTER, "sequential"), (EARLY, "early"))
BETWEEN_S = 6
"""So long it stays before it is changed again."""
ENOUGH = 2 * MANNER.fewest
"""Requests that show the change: where they queue, the first of them waits for all that were sent before."""
VIEWS = (
    ("2", ("ENGINES 3: 1 prefill, 2 decode", "NixlPushConnector, push, posts on the writer thread: d0, d1, p0")),
    ("3", ("1 prefill x 2 decode: 2 pairs", "p0 -> d0", "p0 -> d1")),
    ("4", ("REQUESTS", "p0>d0", "p0>d1")),
    ("5", ("under way wait longer than usual",)),
    ("6", ("COMMITMENT", "of coordination hidden per request, for", "Push overlapped")),
)
"""Key, and what is there while requests come."""
TTFT = re.compile(r"TTFT [\d,.]+ ms = .*")
WITHIN_S, BUSY_WITHIN_S = 5.0, 20.0
"""On a quiet machine; where others wait for the same cores an answer alone may take seconds."""


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A pair, a second decode engine, and a third one that is told not to record."""
    made = Rig(PairOptions(decodes=3), tmp_path_factory.mktemp("top"), {"d2": with_env(KVSCOPE="off")})
    with made:
        yield made


@pytest.fixture(scope="module")
def router(rig: Rig) -> RouterProcess:
    """In front of the pair."""
    return rig.front("p0", "d0", way="early")


@pytest.fixture(scope="module")
def both(rig: Rig) -> RouterProcess:
    """In front of all that record."""
    return rig.front("p0", "d0", "d1", way="early")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where top runs."""
    return tmp_path_factory.mktemp("saved")


@pytest.fixture(scope="module")
def looking(rig: Rig, folder: Path) -> Iterator[Terminal]:
    """It looks on from before the first request."""
    with top(rig.run_dir, folder) as shown:
        shown.until_shown("NO REQUEST so far")
        yield shown


@pytest.fixture
def screen(looking: Terminal) -> Terminal:
    """On the overview."""
    looking.keys("1")
    return looking


@contextmanager
def under_load(rig: Rig, url: str, load: LoadOptions) -> Iterator[list[ClientRecord]]:
    """The load runs beside the block, and has ended after it; the list is filled then."""
    records: list[ClientRecord] = []
    thread = threading.Thread(target=lambda: records.extend(rig.load(load, url)), name="load")
    thread.start()
    try:
        yield records
    finally:
        thread.join()


def test_early_it_says_what_the_report_says(rig: Rig, router: RouterProcess, screen: Terminal) -> None:
    records = rig.load(SHORT, router.url)
    agrees_with_the_report(screen, rig.run_dir, EARLY, len(records))


def test_a_change_of_dispatch_under_load_changes_the_line(rig: Rig, router: RouterProcess, screen: Terminal) -> None:
    # Four engines share the cores: longer prompts would queue, and the first to show the change would wait for others.
    load = replace(SHORT, requests=280, input_tokens=((100, 1.0), (200, 1.0)), output_tokens=4, warm_up=0, seed=1)
    seen: list[tuple[Manner, int, int]] = []
    with watching() as watch, under_load(rig, router.url, load) as records:
        for manner, way in CHANGES:
            router.control(dispatch=way)
            changed = monotonic_ns()
            screen.until(lambda text, manner=manner: says(text, manner), 40)  # type: ignore[misc]
            seen.append((manner, changed, monotonic_ns()))
            screen.until(lambda text: window_s(text) >= BETWEEN_S)
    assert [record.error for record in records if not record.ok] == []
    told = [(manner, shown - enough_answered(records, changed), shown - changed) for manner, changed, shown in seen]
    print(f"\n{watch.bystanders}")
    for manner, ns, all_ns in told:
        since = f"{ns / 1e9:+.1f} s after {ENOUGH} so sent were answered"
        print(f"{manner.name}: the line changed {all_ns / 1e9:.1f} s after the change, {since}")
    assert max(ns for _, ns, _ in told) / 1e9 <= watch.bystanders.choose(WITHIN_S, BUSY_WITHIN_S)


def enough_answered(records: list[ClientRecord], after: int) -> int:
    """ns at which as many of those sent after that had their first tokens as two windows need."""
    return sorted(record.token_ns[0] for record in records if record.sent_ns > after)[ENOUGH - 1]


def test_sequential_it_says_what_the_report_says(rig: Rig, router: RouterProcess, screen: Terminal) -> None:
    screen.until_shown("first tokens 0.0/s")  # so that the report has no others
    router.control(dispatch="sequential")
    records = rig.load(SHORT, router.url)
    agrees_with_the_report(screen, rig.run_dir, AFTER, len(records))


def test_each_view_shows_what_goes_on(rig: Rig, both: RouterProcess, screen: Terminal) -> None:
    with under_load(rig, both.url, SHORT) as records:
        for key, told in VIEWS:
            screen.keys(key)
            screen.until_shown(*told)
    assert [record.error for record in records if not record.ok] == []
    screen.keys("2")
    screen.until(lambda text: all(re.search(rf"^[> ] {name} +[PD] +ok ", text, re.M) for name in ("d0", "d1", "p0")))


def test_a_request_s_waterfall_is_what_is_printed_of_it(rig: Rig, screen: Terminal) -> None:
    screen.keys("4")
    screen.until_shown("REQUESTS", "p0>d0")
    screen.keys("Home", "Enter")
    # The newest may still be under way when it is opened; its page goes on until it is over.
    shown = screen.until(lambda text: TTFT.search(text) is not None and "P prefill_run" in text)
    request, split = re.search(r"cmpl-\S+", shown), TTFT.search(shown)
    assert request, shown
    assert split, shown
    assert split[0].rstrip() in printed("request", request[0], "--run-dir", str(rig.run_dir), "--width", "100")
    screen.keys("PageDown")
    screen.until_shown("*D decode_run", "Paid: ")
    screen.keys("Escape")
    screen.until_shown("REQUESTS")


def test_a_request_that_nobody_takes_over_is_stuck_until_somebody_does(rig: Rig, screen: Terminal) -> None:
    text = prompt(300, 50)
    params = dispatch.sequential_params("push", prefilled(rig["p0"], "forgotten", text))
    screen.keys("5")
    screen.until_shown("STUCK 1 of 1 under way wait", ">> 1 request waits for arrived", "> forgotten ")
    assert decoding(rig["d0"], "forgotten", text, params).answer()[0] == 200
    screen.until_shown("STUCK nothing waits")


def test_a_window_of_another_size_is_drawn_anew(rig: Rig, both: RouterProcess, screen: Terminal) -> None:
    with under_load(rig, both.url, SHORT):
        for columns in (60, 39, 100) * 3:
            screen.resize(columns, 30)
            screen.until(lambda text, columns=columns: drawn_for(text, columns), 20)  # type: ignore[misc]
        for columns in (60, 39, 60, 100):  # faster than anybody draws
            screen.resize(columns, 30)
        screen.until(lambda text: drawn_for(text, 100), 20)


def test_of_what_an_engine_serves_that_does_not_record_it_says_what_cannot_be_known(rig: Rig, screen: Terminal) -> None:
    dark = rig.front("p0", "d0", "d2", way="early")
    alone = len(rig.load(SHORT, dark.url)) // 2
    shown = screen.until_shown(f"one-legged: seen from prefill p0 ({alone}); without the other side no TTFT")
    assert "DATA in part" in shown
    assert re.search(r"P 1/1  D 2/3\+ ", shown)
    assert "leads" in shown, "and of the others it says what it always says"
    screen.keys("2")
    told = "requests were seen from prefill alone: the engines that decode for them give no events here."
    screen.until_shown(f"{alone} {told}")
    screen.keys("4")
    screen.until_shown("p0>d0", "p0>?", "one-legged")


def test_from_elsewhere_it_says_the_same_and_goes_on_after_a_break(
    rig: Rig, router: RouterProcess, screen: Terminal, folder: Path
) -> None:
    server = ExitStack()
    address = server.enter_context(served(rig.run_dir))
    with server, top_from_elsewhere(address, folder) as far:
        far.until_shown("LIVE", "leads")
        router.control(dispatch="sequential")
        say_the_same(screen, far, AFTER, len(rig.load(SHORT, router.url)))
        router.control(dispatch="early")
        with under_load(rig, router.url, SHORT) as records:
            far.until(lambda text: says(text, EARLY))
            server.close()
            far.until_shown("LOST", f"lost {address}", "DATA old")
            screen.until_shown("LIVE", "DATA good")
            server.enter_context(served(rig.run_dir, int(address.rpartition(":")[2])))
            far.until_shown("LIVE", "DATA good")
        say_the_same(screen, far, EARLY, len(records))


def say_the_same(near: Terminal, far: Terminal, manner: Manner, sent: int) -> None:
    """Once all `sent` are over, both say the same of them, and that nothing was lost."""
    shown = [each.until(lambda text: over(text) == sent and says(text, manner)) for each in (near, far)]
    assert all("lost 0 " in flat(text) for text in shown)
    here, there = ((verdict(text).leader, verdict(text).manner, percentiles(text)) for text in shown)
    print(f"{here[0]} {here[1].sentence}")
    assert here == there
    assert len(here[2]) == 3


def test_an_engine_that_is_killed_ends_and_the_others_go_on(
    rig: Rig, both: RouterProcess, router: RouterProcess, screen: Terminal
) -> None:
    both.control(dispatch="sequential")
    with under_load(rig, both.url, replace(SHORT, requests=120)) as records:
        screen.until(lambda text: says(text, AFTER) and over(text) >= 10)
        kill(rig["d1"])
        shown = screen.until_shown(">> d1 RUNS NO MORE.", "d1 ended", "DATA in part")
        assert re.search(r"P 1/1  D 1/[23]", shown)
        screen.until(lambda text: over(text) >= over(shown) + 10)
        screen.keys("2")
        screen.until(lambda text: bool(re.search(r"^[> ] d1 +D +ended ", text, re.M)))
        screen.keys("1")
    assert 10 <= sum(record.ok for record in records) < len(records), "killed in the middle"
    router.control(dispatch="early")
    records = rig.load(SHORT, router.url)
    assert all(record.ok for record in records)
    # With them, those that wait in vain for d1 are over once their blocks expire.
    screen.until(lambda text: over(text) >= len(records) and says(text, EARLY))
    screen.until_shown(">> d1 RUNS NO MORE.", "DATA in part")

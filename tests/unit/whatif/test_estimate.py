"""Figures, bounds and prices of fleets whose modes are known; and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from kvscope.analysis.render.page import Page
from kvscope.core.critical_path import split
from kvscope.model.errors import InputError
from kvscope.model.events import Events
from kvscope.whatif.document import estimate_document
from kvscope.whatif.estimate import Estimate, Wish, estimate
from kvscope.whatif.mode import Mode
from kvscope.whatif.render.page import put_estimate

from ..core.scene import events_of
from ..live.fleet import Items, events, stretch

MS = 1_000_000


def of(parts: Iterable[Items], connector: str | None, dispatch: str | None, hold_ns: int = 0) -> Estimate:
    found = events(parts)
    return estimate(found, split(found), Wish(connector, dispatch, hold_ns))


def page_of(found: Estimate) -> str:
    page = Page(100)
    put_estimate(page, found)
    return "\n".join(str(line) for line in page.lines)


def test_a_sequential_push_called_early_saves_what_waited_for_the_call() -> None:
    """By the worked example: decode was called 5 ms after prefill, registered, and its registration came 11 after."""
    found = of(stretch("sequential", 0, 4), None, "early")
    assert (found.was, found.to) == (Mode("push", "sequential"), Mode("push", "early"))
    # staged at 108, and from the match at 119 to the first token at 147 there are 28
    assert found.median.measured == 147 * MS
    assert found.median.low == found.median.high == (108 + 28) * MS
    assert found.median.told == -1
    assert found.early == (1.0, 1.0)
    assert found.requests == 40


def test_an_early_push_called_after_prefill_waits_for_it() -> None:
    found = of(stretch("early", 0, 4), None, "sequential")
    assert found.median.measured == 136 * MS
    assert found.median.low > 108 * MS
    assert found.median.told == 0 or found.median.low >= 136 * MS


def told_by_the_router(parts: list[Items], hold_ms: float) -> list[Items]:
    """With what a router stamps that waits between the legs."""
    for number, part in enumerate(parts):
        begin = min(item["t"] for item in part)
        stamps = {"received": 0, "prefill_sent": 0, "prefill_returned": 107, "decode_sent": 108 + hold_ms}
        router = {"engine": "router", "leg": "router", "request": f"r{number:04d}"}
        part += [{"t": begin + round(ms * MS), "moment": name, **router} for name, ms in stamps.items()]
    return parts


def test_a_pull_that_waits_for_its_call_is_longer_than_a_push_that_does_not() -> None:
    found = of(told_by_the_router(stretch("pull", 0, 4, delay_ms=200), 200), "push", "early")
    assert found.median.measured == 340 * MS
    # computed 105, posting 2, in flight 4, from noticed to the first token 14
    assert found.median.low == (105 + 2 + 4 + 14) * MS
    # and a step of prefill as long as its own 100, from posted to noticed 8, a step of decode 11
    assert found.median.high == (105 + 100 + 2 + 8 + 11 + 14) * MS
    assert found.median.told == -1


def test_reserved_blocks_wait_longer_when_decode_is_called_early() -> None:
    found = of(stretch("pull", 0, 4), "push", "early").reserved
    assert found is not None
    assert found.measured == pytest.approx(40 * 8 * (126 - 113) / 1000)
    assert found.low > 5 * found.measured
    assert found.least_room is None


def test_requests_of_another_mode_and_those_without_a_first_token_are_left_out_and_counted() -> None:
    unfinished = [
        [item for item in part if item["moment"] != "first_token"] for part in stretch("pull", 6, 7, first=80)
    ]
    found = of([*stretch("sequential", 0, 4), *stretch("pull", 4, 5, first=50), *unfinished], None, "early")
    assert (found.requests, found.left.otherwise, found.left.untimed) == (40, 10, 10)
    told = " ".join(page_of(found).split())
    assert "not 10 without a TTFT or a handoff; not 10 that were served in another mode" in told


def test_what_the_router_would_hold_is_added_where_it_called_early() -> None:
    for connector, dispatch in ((None, "sequential"), ("pull", None)):
        soon = of(stretch("early", 0, 4), connector, dispatch)
        late = of(stretch("early", 0, 4), connector, dispatch, 200 * MS)
        assert late.median.low >= soon.median.low + 190 * MS  # some of it behind prefill's hand-off
        ends = [next(each for each in found.costs if each.name == "dispatch") for found in (soon, late)]
        assert (ends[1].low - ends[0].low == 200 * MS).all()
        assert (ends[1].high - ends[0].high == 200 * MS).all()
        assert "The router calls decode 200 ms after prefill answers." in late.assumed


@pytest.mark.parametrize(
    ("scene", "asked", "why"),
    [
        ("pull", ("pull", "early"), "pull has no early dispatch"),
        ("early", (None, None), "is of push, early already"),
        ("pull", (None, "sequential"), "is of pull, sequential already"),
        ("pull", ("push", "early", MS), "an early call waits for nothing"),
        ("pull", ("push", "sequential", MS), "what the router held is in the recording"),
    ],
)
def test_what_cannot_be_asked_is_refused(scene: str, asked: tuple[Any, ...], why: str) -> None:
    with pytest.raises(InputError, match=why):
        of(stretch(scene, 0, 1), *asked)


def test_a_recording_without_a_handoff_is_refused() -> None:
    nothing: Events = events_of([])
    with pytest.raises(InputError, match="no request was handed from prefill to decode"):
        estimate(nothing, split(nothing), Wish("push", "early"))


def test_what_was_lost_and_what_is_to_be_known_of_the_sources_stand_beside_it() -> None:
    whole = events(stretch("sequential", 0, 2))
    short = replace(whole, processes=(replace(whole.processes[0], lost=7), *whole.processes[1:]))
    found = estimate(short, split(short), Wish(None, "early"))
    page = Page(100)
    put_estimate(page, found, ["a part is missing"])
    text = "\n".join(str(line) for line in page.lines)
    assert "7 events" in text
    assert "a part is missing" in text
    told = json.loads(estimate_document(found, ["a part is missing"]))
    assert (told["events_lost"], told["notes"]) == (7, ["a part is missing"])
    clean = page_of(of(stretch("sequential", 0, 2), None, "early"))
    assert "LOST" not in clean
    assert "NOTE" not in clean


def test_every_page_and_every_document_says_that_it_is_hypothetical() -> None:
    for scene, asked in (("pull", ("push", "early")), ("early", ("pull", None)), ("sequential", (None, "early"))):
        found = of(stretch(scene, 0, 2), *asked)
        text, told = page_of(found), json.loads(estimate_document(found))
        assert text.count("HYPOTHETICAL") >= 2
        assert told["hypothetical"] is True
        assert [each["figure"] for each in told["ttft"]] == ["p50", "p95", "mean"]
        for cost in told["costs"]:
            assert cost["low_p50_ns"] <= cost["high_p50_ns"]
            assert (cost["source"] == "measured") or cost["source"] in " ".join(text.split())
        assert all(assumed in " ".join(text.split()) for assumed in found.assumed)


def test_the_verb_reads_a_recording_and_refuses_in_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    from kvscope.cli import main

    assert main(["whatif", "docs/pictures/push-sequential.kvs", "--dispatch", "early", "--plain"]) == 0
    assert "HYPOTHETICAL" in capsys.readouterr().out
    assert main(["whatif", "docs/pictures/pull.kvs", "--dispatch", "early"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("kvscope: pull has no early dispatch")
    assert len(said.splitlines()) == 1

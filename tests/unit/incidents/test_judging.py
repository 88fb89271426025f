"""Requests and failures held to triggers: who sets one off, once, and when."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from kvscope.core.stream import Limits, Stream
from kvscope.incidents.judging import Fired, Judge
from kvscope.incidents.triggers import LEAST, parsed
from kvscope.model.events import Events

from ..core.scene import D_LEG, MS, P_LEG, moment, moments
from ..live.fleet import events, request

SECOND = 1000 * MS
Items = list[dict[str, Any]]


class Watch:
    """A stream and a judge, fed in looks of half a second."""

    def __init__(self, *triggers: str, since_s: float = 0) -> None:
        self.texts: dict[int, str] = {}
        self.stream = Stream(Limits())
        self.judge = Judge([parsed(text) for text in triggers], round(since_s * SECOND), lambda key: self.texts[key])
        self.now = 0

    def until(self, seconds: float, parts: Iterable[Items] = ()) -> list[Fired]:
        """All that is set off by then."""
        given, fired = events(parts), list[Fired]()
        self.texts |= given.texts
        while self.now < seconds * SECOND:
            before, self.now = self.now, self.now + SECOND // 2
            rows = given.rows[(given.rows["t"] > before) & (given.rows["t"] <= self.now)]
            batch = Events(np.array(rows), given.processes, given.texts)
            over, answered, waiting = self.stream.advance(batch, self.now)
            fired += self.judge.judged(batch, over, answered, waiting, self.now)
        return fired


def test_a_request_whose_stage_is_too_long_sets_it_off_once_when_it_answers() -> None:
    watch = Watch("dispatch>200ms")
    parts = [
        request("sequential", 0, 100),
        request("sequential", 1, 1000, delay_ms=250),
        request("sequential", 2, 1100),
    ]
    (fired,) = watch.until(70, parts)
    assert fired.at == 1500 * MS
    assert (fired.count, fired.trigger.text) == (1, "dispatch>200ms")
    (culprit,) = fired.culprits
    assert culprit.request == "cmpl-r0001-0-bbbbbbbb"
    assert culprit.value_ns is not None
    assert culprit.value_ns > 250 * MS
    assert (culprit.origin_ns, culprit.first_token_ns) == (1000 * MS, 1397 * MS)
    assert (culprit.prefill_engine, culprit.decode_engine) == ("p0", "d0")
    assert fired.origin == 1000 * MS


def test_the_worst_are_named_first_and_all_are_counted() -> None:
    parts = [request("sequential", n, 1000 + n, delay_ms=210 + n) for n in range(30)]
    (fired,) = Watch("dispatch>200ms").until(5, parts)
    assert (fired.count, len(fired.culprits)) == (30, 20)
    values = [culprit.value_ns for culprit in fired.culprits]
    assert values == sorted(values, key=lambda ns: -(ns or 0))
    assert fired.value_ns == values[0]


def test_classes_are_judged_too() -> None:
    parts = [request("sequential", 0, 1000), request("sequential", 1, 1000, delay_ms=400)]
    fired = Watch("coordination>300ms", "compute_run>300ms", "transfer>300ms").until(5, parts)
    assert [each.trigger.name for each in fired] == ["coordination"]


def test_what_was_over_before_it_began_sets_nothing_off() -> None:
    parts = [request("sequential", 0, 1000, delay_ms=400), request("sequential", 1, 3000, delay_ms=400)]
    (fired,) = Watch("dispatch>200ms", since_s=2).until(8, parts)
    assert [culprit.request for culprit in fired.culprits] == ["cmpl-r0001-0-bbbbbbbb"]


def test_one_that_never_answers_is_known_by_its_age() -> None:
    begun = moments(P_LEG, arrived=1000, taken=1001, queued=1002, scheduled=1005)
    watch = Watch("ttft>2s", "dispatch>2s")
    (fired,) = watch.until(60, [begun])
    assert (fired.at, fired.trigger.name) == (3500 * MS, "ttft")
    assert fired.value_ns == 2500 * MS
    assert fired.culprits[0].first_token_ns is None


def test_one_that_answers_late_after_all_is_not_told_of_twice() -> None:
    parts = [request("sequential", 0, 1000, delay_ms=4000)]
    watch = Watch("ttft>2s")
    (fired,) = watch.until(60, parts)
    assert fired.at == 3500 * MS
    assert fired.culprits[0].first_token_ns is None


def test_failures_by_reason() -> None:
    failed = [moment(D_LEG, "failed", 1200, reason="lease_expired"), moment(P_LEG, "failed", 1300, reason="no_blocks")]
    fired = Watch("failed:lease_expired", "failed", "failed:transfer_failed").until(5, [failed])
    assert [(each.trigger.text, each.count) for each in fired] == [("failed:lease_expired", 1), ("failed", 2)]
    assert fired[0].culprits[0].reason == "decode lease_expired"
    assert fired[0].culprits[0].decode_engine == "d0"
    assert [culprit.request for culprit in fired[1].culprits] == ["cmpl-x-0-bbbbbbbb", "cmpl-x-0-aaaaaaaa"]


def test_failures_in_the_engine_s_own_words() -> None:
    failed = [moment(D_LEG, "failed", 1200, reason="the cable was pulled")]
    (fired,) = Watch("failed").until(5, [failed])
    assert fired.culprits[0].reason == "decode the cable was pulled"


@pytest.mark.parametrize(("delay_ms", "times"), [(250, 1), (50, 0)])
def test_a_quantile_sets_it_off_when_it_goes_beyond_the_limit(delay_ms: int, times: int) -> None:
    parts = [request("sequential", n, 1000 + 200 * n, delay_ms=delay_ms) for n in range(3 * LEAST)]
    fired = Watch("p50(dispatch)>200ms/30s").until(20, parts)
    assert len(fired) == times
    assert all(each.value_ns == (5 + delay_ms) * MS for each in fired)


def test_a_quantile_names_those_that_made_it_with_the_worst_first() -> None:
    slow = [request("sequential", n, 1000 + 200 * n, delay_ms=300 + n) for n in range(LEAST)]
    (fired,) = Watch("p50(dispatch)>200ms/30s").until(20, slow)
    values = [culprit.value_ns or 0 for culprit in fired.culprits]
    assert values == [(305 + n) * MS for n in range(LEAST - 1, LEAST // 2 - 1, -1)]
    assert fired.value_ns is not None
    assert min(values) >= fired.value_ns
    assert fired.count == len(values)


def test_a_quantile_of_few_is_none() -> None:
    parts = [request("sequential", n, 1000 + 10 * n, delay_ms=250) for n in range(LEAST - 1)]
    assert Watch("p50(dispatch)>200ms/30s").until(20, parts) == []


def test_a_quantile_is_of_its_window() -> None:
    slow = [request("sequential", n, 1000 + 100 * n, delay_ms=250) for n in range(LEAST)]
    fast = [request("sequential", 100 + n, 8000 + 100 * n) for n in range(10 * LEAST)]
    again = [request("sequential", 1000 + n, 40_000 + 100 * n, delay_ms=250) for n in range(LEAST)]
    fired = Watch("p90(dispatch)>200ms/5s").until(60, [*slow, *fast, *again])
    assert len(fired) == 2
    assert fired[1].at > 40 * SECOND

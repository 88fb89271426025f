"""Which requests are judged, and beside which."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kvscope.diagnosis.baseline import Comparison
from kvscope.diagnosis.evidence import Evidence
from kvscope.diagnosis.findings import diagnose
from kvscope.diagnosis.onset import Onset, change_in, onset_of, sure_change
from kvscope.diagnosis.windows import Scale, Window, compare, window_of
from kvscope.model.errors import InputError
from kvscope.model.events import Events

from .lost import read_after_expiry
from .real import recording

S = 10**9
DAY = Scale(first=100 * S, wall=1_700_000_000 * S)
"""14 November 2023, 22:15:00 at 100 s"""


@pytest.mark.parametrize(
    ("text", "at"),
    [("90s", 190), ("1m30s", 190), ("1h", 3700), ("0.5s", 100.5), ("22:15:10", 110), ("22:16", 160), ("22:14:50", 90)],
)
def test_an_instant_is_after_the_begin_or_a_time_of_day(text: str, at: float) -> None:
    assert DAY.instant(text, "--from") == at * S


@pytest.mark.parametrize("text", ["", "soon", "90", "5x", "-5s", "25:00", "12:00:99x"])
def test_what_is_no_instant_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--from"):
        DAY.instant(text, "--from")


def test_a_time_of_day_needs_somebody_who_told_it() -> None:
    with pytest.raises(InputError, match="nothing here tells the time of day"):
        Scale(0, None).instant("12:00", "--around")


def test_a_stretch_has_two_ends_or_one() -> None:
    assert window_of("10s..20s", DAY, "--baseline") == Window(110 * S, 120 * S)
    assert window_of("..20s", DAY, "--baseline") == Window(None, 120 * S)
    assert window_of("22:15..22:16", DAY, "--baseline") == Window(100 * S, 160 * S)
    for text in ("20s..10s", "10s", "10s..x"):
        with pytest.raises(InputError):
            window_of(text, DAY, "--baseline")


def test_what_came_before_a_window_shows_what_is_usual(evidence_of: Callable[[Events], Evidence]) -> None:
    whole = evidence_of(recording("pull"))
    begin = int(whole.when.min())
    found = compare(whole, Window(begin + 10 * S, begin + 15 * S), None)
    assert found.was is not None
    assert (found.was.when < begin + 10 * S).all()
    assert ((found.now.when >= begin + 10 * S) & (found.now.when < begin + 15 * S)).all()
    assert len(found.now) + len(found.was) < len(whole)


def test_too_few_requests_show_nothing(evidence_of: Callable[[Events], Evidence]) -> None:
    whole = evidence_of(recording("pull"))
    assert compare(whole, Window(int(whole.when.min()) + S, None), None).was is None


def test_a_baseline_window_is_not_judged_itself(evidence_of: Callable[[Events], Evidence]) -> None:
    whole = evidence_of(recording("pull"))
    first = Window(None, int(whole.when.min()) + 10 * S)
    found = compare(whole, Window(), first)
    assert found.was is not None
    assert len(found.was) + len(found.now) == len(whole)


def test_noise_does_not_change() -> None:
    rng = np.random.default_rng(0)
    found = [sure_change(rng.lognormal(size=200), 0.0) for _ in range(200)]
    assert sum(one is not None for one in found) <= 2


def test_neither_does_what_wanders() -> None:
    rng = np.random.default_rng(1)
    series = [np.convolve(rng.lognormal(size=220), np.ones(10) / 10, "valid") for _ in range(200)]
    assert sum(sure_change(one, 0.15) is not None for one in series) <= 4


@pytest.mark.parametrize("at", [40, 100, 160])
def test_a_step_is_found_where_it_is(at: int) -> None:
    rng = np.random.default_rng(2)
    values = rng.lognormal(size=200) + 5.0 * (np.arange(200) >= at)
    found = change_in(values)
    assert found is not None
    assert abs(found.at - at) <= 2
    assert found.up


@pytest.mark.parametrize("share", [1.0, 0.5, 0.2])
def test_an_onset_is_found_though_not_every_request_is_struck(share: float) -> None:
    rng = np.random.default_rng(3)
    when = np.arange(300) * S
    values = np.where((np.arange(300) >= 200) & (rng.random(300) < share), 10.0, 0.0)
    found = onset_of(when, values, 5.0, ((195 * S, "d0 0.33"), (10 * S, "p0")))
    assert found.at is not None
    assert abs(found.at - 200 * S) <= 10 / share * S
    assert found.until is None
    if share == 1.0:
        assert found.beside == "d0 0.33"


def test_an_end_is_found_too() -> None:
    values = np.where(np.arange(300) < 100, 10.0, 0.0)
    assert onset_of(np.arange(300) * S, values, 5.0, ()) == Onset(None, until=100 * S)


def test_what_always_was_so_has_no_onset() -> None:
    assert onset_of(np.arange(10) * S, np.full(10, 7.0), 5.0, ()) == Onset(None)
    assert onset_of(np.arange(10) * S, np.zeros(10), 5.0, ()) == Onset(None)


def test_what_failed_elsewhere_is_not_what_failed_here(evidence_of: Callable[[Events], Evidence]) -> None:
    whole = evidence_of(read_after_expiry())
    struck = whole.failures.of(whole.splits, "lease_expired")
    half = whole.select(np.arange(len(whole)) >= len(whole) * 3 // 4)
    assert struck.sum() == 16
    assert half.failures.of(half.splits, "lease_expired").sum() == struck[len(whole) * 3 // 4 :].sum()
    assert half.failures.count("lease_expired") == struck[len(whole) * 3 // 4 :].sum()
    found = diagnose(whole, Comparison(half, None)).findings
    assert [finding.slug for finding in found] == ["lease-expired-before-read"]

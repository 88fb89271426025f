"""A recording that is gone through in pieces is told of as one that is read at once, to the byte."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvscope.core.critical_path import split
from kvscope.core.unhurried import PATIENT, Unhurried
from kvscope.diagnosis.document import diagnosis_document
from kvscope.diagnosis.evidence import Evidence, gather_evidence
from kvscope.diagnosis.findings import diagnose
from kvscope.diagnosis.gathering import gather
from kvscope.diagnosis.windows import Window, compare
from kvscope.export import passage as passage_module
from kvscope.model.events import Events, picked
from kvscope.sources import open_sources
from kvscope.sources.bytime import Loaded
from kvscope.sources.past import Past, open_past

from ..core.scene import events_of
from ..core.simulator import Cause, fleets, items
from .conftest import ALL, gathered, healthy
from .real import PICTURES, RECORDINGS, recording

MADE = PICTURES.parent / "incidents"
REAL = [*(PICTURES / f"{name}.kvs" for name in RECORDINGS), *sorted(MADE.glob("*.kvs"))]
CUTS = [(97, 200), (1_000, 700), (10**6, 10**6)]
"""(events that are read at a time, events that are solved at a time)"""


def told_of(whole: Evidence, usual: Evidence | None = None) -> str:
    """Everything that is said of it."""
    if not len(whole):
        return "nothing"
    return f"{whole.wall}\n{diagnosis_document(diagnose(whole, compare(whole, Window(), usual), first=whole.first))}"


@cache
def at_once(name: str) -> Events:
    """Of an incident of the catalogue."""
    return ALL[name].made()


def in_pieces(monkeypatch: pytest.MonkeyPatch, past: Past, cut: tuple[int, int]) -> Evidence:
    monkeypatch.setattr(passage_module, "MOST", cut[0])
    try:
        return gather(past, stream=Unhurried(batch=cut[1]))
    finally:
        past.close()


def loaded(monkeypatch: pytest.MonkeyPatch, events: Events) -> Past:
    monkeypatch.setattr("kvscope.sources.bytime.BLOCK", 16)
    return Past([Loaded(events)])


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_real_recordings(monkeypatch: pytest.MonkeyPatch, path: object, cut: tuple[int, int]) -> None:
    past = open_past([str(path)], lambda share: None)
    found = in_pieces(monkeypatch, past, cut)
    assert told_of(found) == told_of(gathered(open_sources([str(path)]).events))


@pytest.mark.parametrize("name", ALL)
def test_incidents(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    incident, events = ALL[name], at_once(name)
    usual = healthy(incident.healthy) if incident.healthy else None
    wanted = told_of(gathered(events), usual)
    for cut in CUTS[:2]:
        assert told_of(in_pieces(monkeypatch, loaded(monkeypatch, events), cut), usual) == wanted


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fleets(), st.integers(1, 60), st.integers(1, 100), st.sampled_from((0, 10**9, 40 * 10**9)))
def test_fleets(monkeypatch: pytest.MonkeyPatch, fleet: list[Cause], most: int, batch: int, apart: int) -> None:
    moments = [
        item | {"t": item["t"] + cause.number * apart} for cause in fleet for item in items(cause)
    ]  # some begin when others are long over
    events = events_of(moments)
    found = in_pieces(monkeypatch, loaded(monkeypatch, events), (most, batch))
    whole = gather_evidence(events, split(events))
    assert told_of(found) == told_of(whole)
    assert np.array_equal(found.splits.exposed, whole.splits.exposed)
    assert np.array_equal(found.splits.state, whole.splits.state)


@pytest.mark.parametrize("seed", range(3))
def test_whichever_order_events_come_in(seed: int) -> None:
    events = recording("push-early")
    order = np.random.default_rng(seed).permutation(len(events))
    other = Events(picked(events.rows, order), events.processes, events.texts)
    assert told_of(gathered(other)) == told_of(gathered(events))


def test_what_may_not_be_held_is_told_of_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a pair is seen: nothing of it is plainly over before the end."""
    events = recording("push-early")
    decode = np.array([process.engine != "p0" for process in events.processes])
    half = Events(picked(events.rows, decode[events.rows["process"]]), events.processes, events.texts)
    limits = PATIENT.__class__(settle_ns=10**9, sweep_ns=10**9, linger_ns=10**9, give_up_ns=3 * 10**9, max_rows=300)
    monkeypatch.setattr(passage_module, "MOST", 200)
    stream = Unhurried(limits, 100)
    found = gather(loaded(monkeypatch, half), stream=stream)
    assert len(found) == 63
    assert stream.held < 300

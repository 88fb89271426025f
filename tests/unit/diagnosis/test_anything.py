"""Whatever is recorded, something is said of it, or nothing; and what is said can be shown."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kvscope.analysis.render.page import Page
from kvscope.diagnosis.baseline import Comparison
from kvscope.diagnosis.document import diagnosis_document
from kvscope.diagnosis.finding import Diagnosis
from kvscope.diagnosis.findings import diagnose
from kvscope.diagnosis.render.page import put_diagnosis
from kvscope.diagnosis.render.paste import paste
from kvscope.diagnosis.windows import Window, compare
from kvscope.model.events import Events

from ..core.scene import events_of
from ..core.simulator import Cause, fleets, items
from ..core.unusual import Items, on_hosts, worlds
from .catalogue import INCIDENTS
from .conftest import gathered

FOUND = (Phase.explicit, Phase.reuse, Phase.generate)
"""What is found is small enough; making it smaller takes minutes."""


def told(events: Events, part: float = 1.0) -> list[Diagnosis]:
    """Alone, and one part beside the other; each is drawn in every way."""
    whole = gathered(events)
    first = np.arange(len(whole)) < part * len(whole)
    found = [diagnose(whole, compare(whole, Window(), None))]
    found.append(diagnose(whole, Comparison(whole.select(first), whole.select(~first))))
    for diagnosis in found:
        put_diagnosis(Page(100), diagnosis)
        paste(diagnosis)
        json.loads(diagnosis_document(diagnosis))
    return found


@given(worlds(12), st.floats(0, 1))
@settings(max_examples=40, deadline=None, phases=FOUND)
def test_requests_of_which_something_went_wrong(world: list[Items], part: float) -> None:
    told(events_of(item for one in world for item in one), part)


@given(worlds(4), st.integers(-(10**12), 10**12))
@settings(max_examples=20, deadline=None, phases=FOUND)
def test_requests_between_two_hosts(world: list[Items], ahead: int) -> None:
    told(events_of(item for one in world for item in on_hosts(one, ahead)))


@given(fleets(12), st.floats(0, 1))
@settings(max_examples=40, deadline=None, phases=FOUND)
def test_requests_of_every_shape(fleet: list[Cause], part: float) -> None:
    told(events_of(item for cause in fleet for item in items(cause)), part)


@given(fleets(6), st.floats(0, 1), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None, phases=FOUND)
def test_requests_of_which_moments_are_lost(fleet: list[Cause], kept: float, seed: int) -> None:
    events = events_of(item for cause in fleet for item in items(cause))
    there = np.random.default_rng(seed).random(len(events)) < kept
    told(Events(events.rows[there], events.processes, events.texts))


@pytest.mark.parametrize("name", INCIDENTS)
def test_the_order_in_which_events_come_changes_nothing(name: str) -> None:
    events = INCIDENTS[name].made()
    order = np.random.default_rng(0).permutation(len(events))
    shuffled = Events(events.rows[order], events.processes, events.texts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, other = (told(each, 0.5)[0] for each in (events, shuffled))
    assert diagnosis_document(one) == diagnosis_document(other)

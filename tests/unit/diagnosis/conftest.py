"""Diagnoses of recordings."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from kvscope.core.critical_path import split
from kvscope.diagnosis.evidence import Evidence, gather_evidence
from kvscope.diagnosis.finding import Diagnosis
from kvscope.diagnosis.findings import diagnose
from kvscope.diagnosis.windows import Window, compare
from kvscope.model.events import Events

from .catalogue import INCIDENTS, UNFAMILIAR
from .real import recording

Diagnose = Callable[..., Diagnosis]
ALL = {**INCIDENTS, **UNFAMILIAR}


def gathered(events: Events) -> Evidence:
    """The evidence in them."""
    return gather_evidence(events, split(events))


@cache
def healthy(name: str) -> Evidence:
    """Of a recording of a real pair."""
    return gathered(recording(name))


@cache
def diagnosis_of(name: str) -> Diagnosis:
    """What is said of an incident of the catalogue."""
    incident = ALL[name]
    whole = gathered(incident.made())
    return diagnose(whole, compare(whole, Window(), healthy(incident.healthy) if incident.healthy else None))


@pytest.fixture(scope="session")
def evidence_of() -> Callable[[Events], Evidence]:
    return gathered


@pytest.fixture(scope="session")
def diagnosed(evidence_of: Callable[[Events], Evidence]) -> Diagnose:
    """Events (and those of a healthy recording, to compare with) -> diagnosis."""

    def of(events: Events, baseline: Events | None = None) -> Diagnosis:
        whole = evidence_of(events)
        usual = evidence_of(baseline) if baseline is not None else None
        return diagnose(whole, compare(whole, Window(), usual))

    return of

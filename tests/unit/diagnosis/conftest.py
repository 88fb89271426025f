"""Diagnoses of recordings."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvscope.core.critical_path import split
from kvscope.diagnosis.evidence import Evidence, gather_evidence
from kvscope.diagnosis.finding import Diagnosis
from kvscope.diagnosis.findings import diagnose
from kvscope.diagnosis.windows import Window, compare
from kvscope.model.events import Events

Diagnose = Callable[..., Diagnosis]


@pytest.fixture(scope="session")
def evidence_of() -> Callable[[Events], Evidence]:
    def gather(events: Events) -> Evidence:
        return gather_evidence(events, split(events))

    return gather


@pytest.fixture(scope="session")
def diagnosed(evidence_of: Callable[[Events], Evidence]) -> Diagnose:
    """Events (and those of a healthy recording, to compare with) -> diagnosis."""

    def of(events: Events, baseline: Events | None = None) -> Diagnosis:
        whole = evidence_of(events)
        usual = evidence_of(baseline) if baseline is not None else None
        return diagnose(whole, compare(whole, Window(), usual))

    return of

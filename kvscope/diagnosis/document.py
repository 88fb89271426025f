"""A diagnosis as one JSON document. VERSION changes when a field's meaning does."""

from __future__ import annotations

import json
import math
from typing import Any

from kvscope.diagnosis.finding import Diagnosis, Finding
from kvscope.diagnosis.match import Measure
from kvscope.diagnosis.texts import UNFAMILIAR

VERSION = 1
Json = dict[str, Any]


def diagnosis_document(diagnosis: Diagnosis) -> str:
    """The document, one line for each finding."""
    findings = ",\n".join(json.dumps(_finding(finding), allow_nan=False) for finding in diagnosis.findings)
    head = json.dumps(_head(diagnosis), allow_nan=False)
    return f'{{"version": {VERSION}, "diagnosis": {head}, "findings": [\n{findings}\n]}}\n'


def _head(diagnosis: Diagnosis) -> Json:
    return {
        "requests": diagnosis.judged,
        "timed": diagnosis.timed,
        "hung": diagnosis.hung,
        "usual_requests": diagnosis.usual,
        "usual_from": diagnosis.usual_from,
        "place": diagnosis.place,
        "ttft": _measure(diagnosis.ttft),
        "stages": [_measure(measure) for measure in diagnosis.stages],
        "slo_misses": None if diagnosis.missed is None else _measure(diagnosis.missed),
        "not_known": list(diagnosis.unknown),
        "first_event_ns": diagnosis.first,
    }


def _finding(finding: Finding) -> Json:
    match, text = finding.match, finding.text
    return {
        "slug": finding.slug,
        "familiar": finding.slug != UNFAMILIAR,
        "stage": match.stage,
        "class": finding.cls,
        "detail": match.detail,
        "explains_ns": _number(finding.explains_ns),
        "share": _number(finding.share),
        "cost_s": _number(finding.cost_s),
        "since": {
            "at_ns": finding.since.at,
            "within_ns": finding.since.within_ns,
            "until_ns": finding.since.until,
            "beside": finding.since.beside,
        },
        "who": {
            "requests": finding.who.struck,
            "of": finding.who.of,
            "engines": finding.who.engines,
            "prompts": finding.who.prompts,
        },
        "measured": [_measure(measure) for measure in match.measured],
        "ruled_out": [{"slug": one.slug, "would_show": one.would, "seen": one.seen} for one in match.ruled_out],
        "mechanism": text.mechanism,
        "refuted_by": match.refuted_by,
        "refuted": match.refuted,
        "do": text.do,
        "price": text.price,
        "missing": match.missing,
        "not_known": list(match.unknown),
        "requests": list(finding.see),
    }


def _measure(measure: Measure) -> Json:
    return {"name": measure.name, "unit": measure.unit, "was": _number(measure.was), "now": _number(measure.now)}


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)

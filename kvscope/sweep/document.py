"""A sweep as one JSON document. VERSION changes when a field's meaning does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from kvscope.analysis.bands import CLASSES
from kvscope.model.stages import STAGES, Class
from kvscope.sweep.contrasts import Contrast
from kvscope.sweep.estimates import Estimate
from kvscope.sweep.measured import Inside, Measured
from kvscope.sweep.results import Results

VERSION = 1
Json = dict[str, Any]


def sweep_document(results: Results) -> Iterator[str]:
    """The document in pieces: a line for each cell and each contrast."""
    head = {
        "options": asdict(results.options),
        "plan": results.options.digest,
        "capacity": {str(tokens): asdict(each) for tokens, each in results.capacity.items()},
        "left": [cell.name for cell in results.left],
        "headlines": results.headlines,
    }
    yield f'{{"version": {VERSION}, "sweep": {_text(head)}, "cells": [\n'
    yield ",\n".join(_text(_cell(each)) for each in results.cells)
    yield '\n], "contrasts": [\n'
    yield ",\n".join(_text(_contrast(each)) for each in results.contrasts)
    yield "\n]}\n"


def _text(told: object) -> str:
    return json.dumps(told, allow_nan=False, default=str)


def _cell(each: Measured) -> Json:
    return {
        "name": each.cell.name,
        "mode": each.cell.mode,
        "prompt_tokens": each.cell.tokens or None,
        "at": each.cell.at,
        "share_of_capacity": each.cell.shared,
        "rate": each.rate,
        "planned": each.planned,
        "sent": len(each.records),
        "answered": each.answered,
        "failed": each.failed,
        "failures": dict(each.failures),
        "source": "client" if each.inside is None else "kvscope",
        "ttft_ns": {f"p{percent}": _estimate(each.percentile(percent)) for percent in (50, 95)},
        "client_ttft_ns": {f"p{percent}": _estimate(each.client_percentile(percent)) for percent in (50, 95)},
        "tpot_ns": {f"p{percent}": _estimate(each.tpot_percentile(percent)) for percent in (50, 95)},
        "inside": None if each.inside is None else _inside(each, each.inside),
        "notes": list(each.notes),
        "told": each.told,
    }


def _inside(each: Measured, inside: Inside) -> Json:
    means = inside.timed.exposed.mean(axis=0), inside.timed.hidden.mean(axis=0)
    exposed, hidden = (
        {stage.name: float(ns) for stage, ns in zip(STAGES, column, strict=True) if ns} for column in means
    )
    return {
        "requests": len(inside.splits),
        "timed": len(inside.timed),
        "states": {str(state): n for state, n in inside.condition.states.items()},
        "shapes": dict(inside.condition.shapes),
        "unfinished": each.unfinished,
        "events_lost": each.lost,
        "clock": inside.clock,
        "others": inside.others,
        "runs_as": each.as_it_runs,
        "mean_ns": float(inside.timed.ttft.mean()),
        "classes_ns": {str(cls): inside.classes[cls] for cls in CLASSES},
        "coordination_exposed_ns": list(inside.bounds(Class.COORDINATION)),
        "coordination_hidden_ns": inside.hidden,
        "transfer_ns": list(inside.bounds(Class.TRANSFER)),
        "stages_ns": exposed,
        "stages_hidden_ns": hidden,
        "pushes": inside.overlap.pushes,
        "registered_before_staged": inside.overlap.overlapped,
    }


def _contrast(each: Contrast) -> Json:
    return {
        "one": each.one.cell.name,
        "other": each.other.cell.name,
        "pairs": each.pairs,
        "left_out": each.left_out,
        "source": "kvscope" if each.inside else "client",
        "verdict": each.verdict,
        "ttft_ns": _estimate(each.ttft),
        "tpot_ns": _estimate(each.tpot),
        "classes_ns": {str(cls): ns for cls, ns in each.classes},
    }


def _estimate(found: Estimate | None) -> Json | None:
    """None: too few."""
    return None if found is None else asdict(found)

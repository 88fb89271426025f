"""Rounding once, by stage: whatever is summed up and printed afterwards adds up, and is the same on every page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from kvscope.analysis.bands import Band
from kvscope.analysis.render.amounts import Milliseconds, add_up
from kvscope.model.requests import RequestSplit, Span
from kvscope.model.row import class_bounds
from kvscope.model.stages import STAGES, Class


def rounded_band(band: Band, scale: Milliseconds) -> Band:
    """A band whose stages are whole quanta."""
    exposed, hidden = (np.array(scale.split(ns), float) * scale.quantum for ns in (band.exposed, band.hidden))
    return replace(band, exposed=exposed, hidden=hidden)


def rounded_split(split: RequestSplit, scale: Milliseconds) -> RequestSplit:
    """A request whose stages are whole quanta, and its classes their sums. Instants stay as they are."""
    exposed, hidden = rounded_stages(split.exposed, scale), rounded_stages(split.hidden, scale)
    classes = class_bounds(exposed)
    return replace(
        split,
        exposed=exposed,
        hidden=hidden,
        class_ns={str(cls): bounds for cls, bounds in classes.items()},
        coordination_ns=classes[Class.COORDINATION],
        transfer_bounds_ns=classes[Class.TRANSFER],
    )


def rounded_stages(stages: Mapping[str, int], scale: Milliseconds) -> dict[str, int]:
    """stage -> ns in whole quanta; those that come to nothing stay in, as 0."""
    quanta = scale.split([stages.get(stage.name, 0) for stage in STAGES])
    return {
        stage.name: number * scale.quantum for stage, number in zip(STAGES, quanta, strict=True) if stage.name in stages
    }


def rounded_spans(spans: Sequence[Span], scale: Milliseconds) -> dict[Span, int]:
    """span -> ns in whole quanta; those of one stage add up to what the stage comes to when all are rounded."""
    by_stage: dict[str, list[Span]] = {}
    for span in spans:
        by_stage.setdefault(span.stage, []).append(span)
    stages = rounded_stages({stage: sum(span.ns for span in mine) for stage, mine in by_stage.items()}, scale)
    lengths: dict[Span, int] = {}
    for stage, mine in by_stage.items():
        quanta = add_up([span.ns for span in mine], scale.quantum, stages[stage] // scale.quantum)
        lengths |= {span: number * scale.quantum for span, number in zip(mine, quanta, strict=True)}
    return lengths

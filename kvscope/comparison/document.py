"""A comparison as one JSON document. VERSION changes when a field's meaning does."""

from __future__ import annotations

import json
from typing import Any

from kvscope.comparison.differences import Difference
from kvscope.comparison.side import Side
from kvscope.comparison.verdict import Verdict

VERSION = 1
Json = dict[str, Any]


def comparison_document(verdict: Verdict) -> str:
    """The document: one line for each figure."""
    head = {
        "sides": [_side(side, number) for side, number in zip((verdict.one, verdict.other), verdict.same.counts,
                                                              strict=True)],
        "strata": len(verdict.same.weights),
        "seams": [{"stage": seam.stage, "since": ".".join(map(str, seam.since)), "why": seam.why}
                  for seam in verdict.seams],
        "conditions": [{"name": each.name, "was": each.was, "now": each.now, "weight": each.weight.value}
                       for each in verdict.conditions],
    }  # fmt: skip
    figures = ",\n".join(json.dumps(_difference(each), allow_nan=False) for each in verdict.differences)
    return f'{{"version": {VERSION}, "comparison": {json.dumps(head)}, "differences": [\n{figures}\n]}}\n'


def _side(side: Side, compared: int) -> Json:
    return {"name": side.name, "requests": len(side) + side.untimed, "timed": len(side), "compared": compared,
            "events_lost": side.splits.tally.lost}  # fmt: skip


def _difference(each: Difference) -> Json:
    figure = each.figure
    times = {name: round(getattr(each, name)) for name in ("was", "now", "value", "low", "high", "smallest")}
    return {"figure": figure.name, "kind": figure.kind or None, "sure": each.sure,
            **{f"{name}_ns": ns for name, ns in times.items()}}  # fmt: skip

"""An estimate as one JSON document. VERSION changes when a field's meaning does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from kvscope.whatif.costs import Cost
from kvscope.whatif.estimate import Estimate, Guess

VERSION = 1
Json = dict[str, Any]


def estimate_document(found: Estimate, notes: Sequence[str] = ()) -> str:
    """The document, indented. `notes`: sentences on what was read."""
    reserved = found.reserved
    told = {
        "version": VERSION,
        "hypothetical": True,
        "measured_mode": {"connector": found.was.connector, "dispatch": found.was.dispatch},
        "asked_mode": {"connector": found.to.connector, "dispatch": found.to.dispatch},
        "requests": found.requests,
        "left_out": {"untimed": found.left.untimed, "of_another_mode": found.left.otherwise},
        "events_lost": found.left.lost,
        "notes": list(notes),
        "ttft": [_guess(each) for each in found.guesses],
        "costs": [_cost(each) for each in found.costs],
        "decode_half_first": found.early,
        "reserved_idle": reserved and {
            "measured_block_s": reserved.measured,
            "low_block_s": reserved.low,
            "high_block_s": reserved.high,
            "most_blocks": reserved.most,
            "blocks": reserved.least_room,
        },
        "assumed": found.assumed,
    }  # fmt: skip
    return json.dumps(told, indent=1, allow_nan=False) + "\n"


def _guess(each: Guess) -> Json:
    times = {name: round(getattr(each, name)) for name in ("measured", "low", "high")}
    return {"figure": each.name, **{f"{name}_ns": ns for name, ns in times.items()}}


def _cost(each: Cost) -> Json:
    low, high = (int(np.median(side)) for side in (each.low, each.high))
    return {"name": each.name, "low_p50_ns": low, "high_p50_ns": high, "source": each.source}

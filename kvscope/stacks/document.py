"""A profile as a JSON document."""

from __future__ import annotations

import json
from typing import Any

from kvscope.model.stages import STAGE
from kvscope.stacks.profile import Profile, Share, StageProfile

VERSION = 1


def profile_document(found: Profile, notes: tuple[str, ...] = ()) -> str:
    """One object; docs/profile.md says what its fields mean."""
    stacks = found.stacks
    return (
        json.dumps(
            {
                "version": VERSION,
                "tool": stacks.tool,
                "period_ns": stacks.period_ns,
                "span_ns": found.span_ns,
                "samples": len(stacks.samples),
                "error_ns": dict(zip(("usual", "most"), found.error_ns, strict=True)),
                "mapped": found.mapped,
                "threads": [vars(thread) for thread in stacks.threads],
                "whole": [_share(share) for share in found.whole],
                "stages": [_stage(stage) for stage in found.stages],
                "notes": [*stacks.notes, *notes],
            },
            allow_nan=False,
        )
        + "\n"
    )


def _stage(stage: StageProfile) -> dict[str, Any]:
    return {
        "stage": stage.stage,
        "class": str(STAGE[stage.stage].cls),
        "engine": stage.engine,
        "requests": stage.requests,
        "open_ns": stage.open_ns,
        "exposed_ns": stage.exposed_ns,
        "threads": [_share(share) for share in stage.shares],
    }


def _share(share: Share) -> dict[str, Any]:
    return {
        "engine": share.engine,
        "role": share.role,
        "ends": share.ends,
        "samples": share.samples,
        "doing": dict(share.doing),
        "gil_held_by": dict(share.held_by),
    }

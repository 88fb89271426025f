"""Whether push overlapped: was the registration there before the finished blocks, and if not, why not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvscope.analysis.bands import CLASS_OF_STAGE, CLASSES, percentile_of
from kvscope.model.graph import BRANCHES
from kvscope.model.shapes import SHAPE_CODE
from kvscope.model.splits import Splits
from kvscope.model.stages import STAGES, Class
from kvscope.probe.vocabulary import UNKNOWN

REGISTRATION, STAGING = BRANCHES.index("registration"), BRANCHES.index("staging")
COORDINATION_STAGES = CLASS_OF_STAGE == CLASSES.index(Class.COORDINATION)
TOWARDS_REGISTRATION = (
    "dispatch",
    "decode_admission",
    "registration_handoff",
    "registration_send",
    "handshake",
    "registration_flight",
)
"""What can make a registration late."""


@dataclass(frozen=True)
class Slack:
    """How much later a hidden branch could have come, over the requests in which it was hidden."""

    branch: str
    requests: int
    p50_ns: tuple[float, float]
    """low and high"""
    least_ns: float
    """the smallest lower bound seen: how close it came to being exposed"""


@dataclass(frozen=True)
class Overlap:
    """Complete push requests, and what hid behind what."""

    pushes: int
    overlapped: int
    """registered before staged: the registration hid behind prefill"""
    told: int
    """of the others, those whose decode leg was sent knowing prefill's outcome: the router decided it"""
    late_stage: str
    """of the rest, the largest stage on the way to the registration; empty where there is none"""
    late_share: float
    """its share of what they took on that way; 0 where there is none"""
    pulls: int
    hidden_ns: float
    """mean hidden coordination of all complete requests"""
    exposed_ns: tuple[float, float]
    """mean exposed coordination, without and with `submit` and `poll_gap`"""
    slacks: tuple[Slack, ...]

    @property
    def late(self) -> int:
        """Pushes that did not overlap."""
        return self.pushes - self.overlapped


def gather_overlap(timed: Splits) -> Overlap:
    """Judge complete requests."""
    push = timed.shape == SHAPE_CODE["push"]
    early = push & (timed.slack[:, REGISTRATION, 0] != UNKNOWN)
    late = push & ~early
    untold = late & (timed.knew != 1)
    low, high = timed.class_bounds(Class.COORDINATION)
    late_stage, late_share = _largest(timed, untold)
    return Overlap(
        pushes=int(push.sum()),
        overlapped=int(early.sum()),
        told=int((late & (timed.knew == 1)).sum()),
        late_stage=late_stage,
        late_share=late_share,
        pulls=int(timed.shaped("pull", "return_read").sum()),
        hidden_ns=_mean(timed.hidden[:, COORDINATION_STAGES].sum(axis=1)),
        exposed_ns=(_mean(low), _mean(high)),
        slacks=tuple(slack for branch in range(len(BRANCHES)) if (slack := _slack(timed, branch)) is not None),
    )


def late_by(timed: Splits) -> np.ndarray:
    """(n,) ns that finished blocks waited for their registration, at most; 0 where it was there."""
    waited = timed.slack[:, STAGING, 1]
    return np.where(waited == UNKNOWN, 0, waited)


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else 0.0


def _largest(timed: Splits, rows: np.ndarray) -> tuple[str, float]:
    """(stage, share of all towards the registration)"""
    sums = {name: int(timed.stage(name)[rows].sum()) for name in TOWARDS_REGISTRATION}
    largest = max(sums, key=lambda name: sums[name])
    return (largest, sums[largest] / sum(sums.values())) if sums[largest] else ("", 0.0)


def _slack(timed: Splits, branch: int) -> Slack | None:
    known = timed.slack[:, branch][timed.slack[:, branch, 0] != UNKNOWN]
    if not len(known):
        return None
    middle = (percentile_of(known[:, 0], 50), percentile_of(known[:, 1], 50))
    return Slack(BRANCHES[branch], len(known), middle, float(known[:, 0].min()))


assert all(any(stage.name == name for stage in STAGES) for name in TOWARDS_REGISTRATION)

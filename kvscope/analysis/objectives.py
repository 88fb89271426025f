"""Service level objectives, and how many requests per second met them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from kvscope.model.errors import InputError

UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000, "h": 3_600_000_000_000}
LONGEST = 366 * 24 * UNITS["h"]
_DURATION = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*([a-z]+)")
METRICS = ("ttft", "tpot")


@dataclass(frozen=True)
class Objectives:
    """The limits a request has to keep."""

    ttft_ns: int | None = None
    tpot_ns: int | None = None


@dataclass(frozen=True)
class Attainment:
    """How well the objectives were kept."""

    objectives: Objectives
    judged: int
    """Requests that can be judged: complete ones, and those that failed or were already over the TTFT limit."""
    ttft_met: int
    tpot_met: int
    met: int
    """All objectives kept."""
    seconds: float
    """The time over which they were seen."""

    @property
    def goodput(self) -> float | None:
        """Requests per second that kept all objectives; None over no time."""
        return self.met / self.seconds if self.seconds > 0 else None


def duration_ns(text: str) -> int:
    """`800ms`, `1.5s` as ns. InputError: no number with a unit, or longer than a year."""
    found = _DURATION.fullmatch(text.strip().lower())
    if not found or found[2] not in UNITS:
        raise InputError(f"{text!r} is not a length of time; write a number and a unit, such as 800ms or 1.5s")
    span = float(found[1]) * UNITS[found[2]]
    if span > LONGEST:
        raise InputError(f"{text!r} is longer than a year; write a shorter time")
    return round(span)


def parse_objectives(text: str) -> Objectives:
    """`ttft=800ms,tpot=30ms`, either or both. InputError: anything else."""
    limits: dict[str, int] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, value = part.partition("=")
        name = name.strip().lower()
        if not equals or name not in METRICS or name in limits:
            raise InputError(f"--slo: cannot use {part!r}; write ttft=800ms, tpot=30ms, or both with a comma between")
        limits[name] = duration_ns(value)
    if not limits:
        raise InputError("--slo: no objective given; write ttft=800ms, tpot=30ms, or both with a comma between")
    return Objectives(limits.get("ttft"), limits.get("tpot"))


def attained(
    objectives: Objectives, ttft: np.ndarray, tpot: np.ndarray, failed: int, overdue: int, seconds: float
) -> Attainment:
    """Judge complete requests by `ttft` and `tpot` (ns; NaN tpot: a single token, which keeps any limit).

    `failed` requests never answered and `overdue` ones have waited longer than the TTFT limit already:
    both have missed.
    """
    ttft_met = _kept(ttft, objectives.ttft_ns)
    tpot_met = _kept(tpot, objectives.tpot_ns)
    return Attainment(
        objectives=objectives,
        judged=len(ttft) + failed + overdue,
        ttft_met=int(ttft_met.sum()),
        tpot_met=int(tpot_met.sum()),
        met=int((ttft_met & tpot_met).sum()),
        seconds=seconds,
    )


def _kept(values: np.ndarray, limit: int | None) -> np.ndarray:
    if limit is None:
        return np.ones(len(values), bool)
    return np.asarray(np.isnan(values.astype(float)) | (values <= limit))

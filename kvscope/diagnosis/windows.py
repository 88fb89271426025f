"""Which requests are judged, and which show what is normal."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from kvscope.diagnosis.baseline import Comparison, stratum
from kvscope.diagnosis.evidence import Evidence
from kvscope.diagnosis.onset import Change, sure_change
from kvscope.diagnosis.thresholds import FEWEST, GROWN
from kvscope.model.errors import InputError

AROUND_S = 30.0
"""Seconds on either side of the instant that is asked for."""
_SPAN = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?")
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?")


@dataclass(frozen=True)
class Window:
    """A stretch of time, ns; None: open."""

    begin: int | None = None
    end: int | None = None

    @property
    def open(self) -> bool:
        """Whether it is all there is."""
        return self.begin is None and self.end is None

    def holds(self, when: np.ndarray) -> np.ndarray:
        """(n,) bool"""
        inside = np.ones(len(when), bool)
        if self.begin is not None:
            inside &= when >= self.begin
        if self.end is not None:
            inside &= when < self.end
        return inside


@dataclass(frozen=True)
class Scale:
    """How instants are written: seconds after the first event, or the time of day there."""

    first: int
    """ns of the first event"""
    wall: int | None
    """what to add to get ns since 1970; None: nobody told"""

    def instant(self, text: str, option: str) -> int:
        """ns of `90s`, `1m30s`, `02:11:40`. InputError: it is no instant"""
        given = text.strip()
        clock = _CLOCK.fullmatch(given)
        if clock:
            return self._of_day(clock, option)
        found = _SPAN.fullmatch(given)
        if found is None or not any(found.groups()):
            raise InputError(f"{option} {text!r} is no instant; write 90s after the begin, or a time of day, 02:11:40")
        hours, minutes, seconds = (float(part or 0) for part in found.groups())
        return self.first + round((hours * 3600 + minutes * 60 + seconds) * 1e9)

    def _of_day(self, clock: re.Match[str], option: str) -> int:
        if self.wall is None:
            raise InputError(f"{option} {clock[0]}: nothing here tells the time of day; write 90s after the begin")
        wanted = round((int(clock[1]) * 3600 + int(clock[2]) * 60 + float(clock[3] or 0)) * 1e9)
        if wanted >= 86_400 * 10**9:
            raise InputError(f"{option} {clock[0]}: a day has no such time")
        after = (wanted - self.first - self.wall) % (86_400 * 10**9)
        # A little before the first event is that, and not a day later.
        return self.first + (after if after < 86_000 * 10**9 else after - 86_400 * 10**9)


def window_of(text: str, scale: Scale, option: str) -> Window:
    """`A..B`, either end left out. InputError: it is no stretch of time"""
    begin, dots, end = text.partition("..")
    if not dots:
        raise InputError(f"{option} {text!r} is no stretch of time; write A..B, such as 0s..90s or 01:59..02:11:40")
    made = Window(
        scale.instant(begin, option) if begin.strip() else None, scale.instant(end, option) if end.strip() else None
    )
    if made.begin is not None and made.end is not None and made.end <= made.begin:
        ends = "where" if made.end == made.begin else "before"
        raise InputError(f"{option} {text!r} ends {ends} it begins")
    return made


def compare(evidence: Evidence, judged: Window, usual: Window | Evidence | None) -> Comparison:
    """What to judge, beside what. usual: as asked for; None: what came before, or before a change that is found"""
    chosen = judged.holds(evidence.when)
    if isinstance(usual, Evidence):
        if judged.open and (change := _found(evidence)) is not None:
            chosen = (evidence.when >= change[0]) == change[1]  # the rest of the recording is not what is asked about
        return Comparison(evidence.select(chosen), _enough(usual))
    if usual is not None:
        normal = usual.holds(evidence.when)
        return Comparison(evidence.select(chosen & ~normal), _enough(evidence.select(normal)))
    if not judged.open:
        before = evidence.when < (judged.begin if judged.begin is not None else np.iinfo(np.int64).min)
        return Comparison(evidence.select(chosen), _enough(evidence.select(before & ~chosen)))
    change = _found(evidence)
    if change is None:
        return Comparison(evidence, None)
    at, up = change
    late = evidence.when >= at
    now, was = evidence.select(late if up else ~late), evidence.select(~late if up else late)
    # A change of what is asked for leaves nothing on the other side to compare with.
    return Comparison(now, was) if _alike(now, was) >= FEWEST.value else Comparison(evidence, None)


def _alike(now: Evidence, was: Evidence) -> int:
    """How many of the usual requests have prompts of about the lengths that are judged."""
    return int(np.isin(stratum(was.timed.prompt), stratum(now.timed.prompt)).sum())


def _enough(evidence: Evidence) -> Evidence | None:
    return evidence if len(evidence.timed) >= FEWEST.value else None


def _found(evidence: Evidence) -> tuple[int, bool] | None:
    """(ns, whether it became worse) of the clearest change of TTFT, or of any stage, among prompts alike."""
    timed = evidence.timed
    if len(timed) < 2 * FEWEST.value:
        return None
    order = np.argsort(timed.when, kind="stable")
    least = GROWN.value * float(timed.splits.ttft.mean())
    series = np.column_stack((timed.splits.ttft, timed.splits.exposed)).astype(float)
    series = _levelled(series, stratum(timed.prompt))[order]
    found: list[Change] = [one for column in series.T if (one := sure_change(column, least)) is not None]
    if not found:
        return None
    best = max(found, key=lambda one: one.score)
    return int(timed.when[order][best.at]), best.up


def _levelled(series: np.ndarray, strata: np.ndarray) -> np.ndarray:
    """(n, columns) without what the length of the prompt explains"""
    levelled = series.copy()
    for one in np.unique(strata).tolist():
        mine = strata == one
        # What is least: a median would be of before the change in one stratum, and of after it in another.
        levelled[mine] -= np.quantile(series[mine], 0.1, axis=0)
    return levelled

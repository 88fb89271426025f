"""What to be woken by, as a person writes it: `dispatch>200ms`, `failed:lease_expired`, `p95(ttft)>2s/30s`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from kvscope.analysis.objectives import duration_ns
from kvscope.model.errors import InputError
from kvscope.model.splits import Splits
from kvscope.model.stages import STAGE, Class
from kvscope.probe.vocabulary import FAILURES

TTFT, FAILED = "ttft", "failed"
WINDOW_NS = 30_000_000_000
LONGEST_NS = 86_400_000_000_000
LEAST = 20
"""Requests that a quantile needs in its window."""
NEAR = 5
"""Names that are suggested for a wrong one."""

Times = Callable[[Splits], np.ndarray]
"""(n,) ns on the path of each request"""


def _class_name(cls: Class) -> str:
    return cls.replace(" ", "_")


def _in_class(cls: Class, splits: Splits) -> np.ndarray:
    return splits.class_bounds(cls)[0]


def _in_stage(name: str, splits: Splits) -> np.ndarray:
    return splits.stage(name)


QUANTITIES: dict[str, Times] = {
    TTFT: lambda splits: splits.ttft,
    **{_class_name(cls): partial(_in_class, cls) for cls in Class},
    **{name: partial(_in_stage, name) for name in STAGE},
}
"""Name -> what it stands for. A class's time is what is certainly of it."""

_LIMIT = re.compile(r"(?:p(?P<percent>\d{1,2}(?:\.\d+)?)\((?P<of>\w+)\)|(?P<name>\w+))\s*>\s*(?P<rest>.+)", re.DOTALL)
_FAILED = re.compile(r"failed(?:\s*:\s*(?P<reason>\S+))?")


@dataclass(frozen=True)
class Trigger:
    """One of them."""

    text: str
    """As it was written."""
    name: str
    """A quantity, or `failed`."""
    limit_ns: int = 0
    """A time beyond it, whichever request's, sets it off,"""
    quantile: float | None = None
    """or this quantile,"""
    window_ns: int = 0
    """of the requests whose first token came in so long."""
    reason: str = ""
    """Of failures: the only one that counts; empty: every one does."""

    @property
    def slug(self) -> str:
        """What it is called in the name of a folder."""
        if self.name == FAILED:
            return f"{FAILED}-{self.reason}" if self.reason else FAILED
        return f"p{self.quantile * 100:g}-{self.name}" if self.quantile is not None else self.name


def parsed(text: str) -> Trigger:
    """InputError: it is not understood; says what is like it."""
    wanted = text.strip()
    if found := _FAILED.fullmatch(wanted):
        reason = found["reason"] or ""
        if reason and reason not in FAILURES:
            raise _unknown(text, reason, "a reason of failures", FAILURES)
        return Trigger(wanted, FAILED, reason=reason)
    if found := _LIMIT.fullmatch(wanted):
        return _limit(wanted, found)
    raise InputError(
        f"--trigger {text!r} is not understood; write dispatch>200ms, coordination>500ms, ttft>2s,"
        " 'p95(dispatch)>200ms/30s', failed, or failed:lease_expired"
    )


def _limit(text: str, found: re.Match[str]) -> Trigger:
    name = found["of"] or found["name"]
    if name not in QUANTITIES:
        raise _unknown(text, name, "ttft, nor a stage or class", QUANTITIES)
    length, slash, window = found["rest"].partition("/")
    if found["of"] is None:
        if slash:
            raise InputError(f"--trigger {text!r}: a span is for a quantile, as in 'p95({name})>200ms/30s'")
        return Trigger(text, name, _length(text, length, f"{name}>200ms", "a limit"))
    if not 0 < float(found["percent"]) < 100:
        raise InputError(f"--trigger {text!r}: a quantile lies between p1 and p99.9")
    span = _length(text, window, f"p95({name})>200ms/30s", "a span") if slash else WINDOW_NS
    limit = _length(text, length, f"p95({name})>200ms", "a limit")
    return Trigger(text, name, limit, round(float(found["percent"]) / 100, 6), span)


def _length(text: str, length: str, example: str, what: str) -> int:
    """ns of a part of it. InputError: no length of time, nothing, or longer than anything takes."""
    try:
        ns = duration_ns(length)
    except InputError:
        more = "; each further trigger takes a --trigger of its own" if ">" in length else ""
        raise InputError(
            f"--trigger {text!r}: {length!r} is not a length of time; give it a unit, as in '{example}'{more}"
        ) from None
    if not 0 < ns <= LONGEST_NS:
        raise InputError(f"--trigger {text!r}: {what} is more than nothing and a day at most, as in '{example}'")
    return ns


def _unknown(text: str, name: str, what: str, known: tuple[str, ...] | dict[str, Times]) -> InputError:
    near = difflib.get_close_matches(name, known, NEAR, 0.5) or [each for each in known if name in each][:NEAR]
    hint = f"near to it are {', '.join(near)}" if near else f"there are {', '.join(known)}"
    return InputError(f"--trigger {text!r}: {name} is not {what}; {hint}")

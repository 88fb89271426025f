"""`stage.registration_flight>50ms engine=d0 class=coordination`: which requests to list.

Terms stand apart by blanks and must all hold. A number is compared by < <= > >= = !=, times with a unit; words by =
(is), != (is not) or ~ (contains). A word alone is looked for in the request's ids.
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from kvscope.analysis.objectives import duration_ns
from kvscope.live.figures import FIGURE, LABEL, TIME, Figure, Label
from kvscope.model.errors import InputError
from kvscope.model.splits import Splits

_TERM = re.compile(r"([A-Za-z_.]+)(<=|>=|!=|<|>|=|~)(.*)")
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([kMG]?)")
_TIMES = {"": 1, "k": 1_000, "M": 1_000_000, "G": 1_000_000_000}
COMPARED: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True)
class Filter:
    """Parsed; holds for the requests for which all terms do."""

    text: str
    terms: tuple[Callable[[Splits], np.ndarray], ...]

    def __call__(self, splits: Splits) -> np.ndarray:
        """(n,) bool"""
        kept = np.ones(len(splits), bool)
        for term in self.terms:
            kept &= term(splits)
        return kept


def parse_filter(text: str) -> Filter:
    """InputError: a name that is none, a number that is none, or a comparison that the name does not bear."""
    return Filter(text.strip(), tuple(_term(word) for word in text.split()))


def _term(word: str) -> Callable[[Splits], np.ndarray]:
    found = _TERM.fullmatch(word)
    if found is None:
        return _worded(LABEL["id"], "~", word)
    name, sign, value = found.groups()
    if not value:
        raise InputError(f"{word}: what is it to be compared with? write for example {name}{sign}{_example(name)}")
    if name in LABEL and (sign in ("=", "!=", "~")):
        return _worded(LABEL[name], sign, value)
    if name in FIGURE and sign in COMPARED:
        return _numbered(FIGURE[name], sign, value)
    if name in LABEL or name in FIGURE:
        signs = "= != ~" if name in LABEL else " ".join(COMPARED)
        raise InputError(f"{word}: {name} is compared by {signs}")
    raise InputError(f"there is no {name!r} to filter by{_near(name)}")


def _numbered(figure: Figure, sign: str, value: str) -> Callable[[Splits], np.ndarray]:
    limit = duration_ns(value) if figure.unit == TIME else _count(value)
    compare = COMPARED[sign]

    def term(splits: Splits) -> np.ndarray:
        values = figure.of(splits)
        return np.asarray(compare(values, limit) & ~np.isnan(values))  # what is not known fits nothing

    return term


def _worded(label: Label, sign: str, value: str) -> Callable[[Splits], np.ndarray]:
    wanted, fits = value.lower(), operator.contains if sign == "~" else operator.eq

    def term(splits: Splits) -> np.ndarray:
        columns, codes, words = label.of(splits)
        # Tens of thousands of ids: no step of this loop is Python's.
        fitting = np.fromiter(map(fits, map(str.lower, words), repeat(wanted)), bool, len(words))
        chosen = np.array(codes, columns[0].dtype)[fitting]
        found = np.any([np.isin(column, chosen) for column in columns], axis=0)
        return np.asarray(~found if sign == "!=" else found)

    return term


def _count(value: str) -> float:
    found = _NUMBER.fullmatch(value)
    if found is None:
        raise InputError(f"{value!r} is not a number; write for example 1000, 16k or 1.5M")
    return float(found[1]) * _TIMES[found[2]]


def _example(name: str) -> str:
    if name in FIGURE:
        return "50ms" if FIGURE[name].unit == TIME else "1000"
    return "d0"


def _near(name: str) -> str:
    near = difflib.get_close_matches(name, [*LABEL, *FIGURE], n=1)
    return f"; did you mean {near[0]}?" if near else "; try stage.NAME, class.NAME, ttft, engine, state, shape"

"""Requests of several prompts: each but the first has a number in its id."""

from __future__ import annotations

import re

import numpy as np

from kvscope.diagnosis.evidence import Evidence
from kvscope.model.splits import text_of

_LISTED = re.compile(r"^cmpl-.+-([1-9]\d*)-[0-9a-f]{8}$")


def listed(now: Evidence, rows: np.ndarray) -> np.ndarray:
    """(n,) bool: of some rows, those that are a prompt after the first of a list"""
    found = np.zeros(len(now), bool)
    for row in np.flatnonzero(rows).tolist():
        found[row] = _LISTED.match(text_of(now.splits.texts, int(now.splits.request[row]))) is not None
    return found

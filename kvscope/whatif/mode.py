"""How the two engines are brought together: who moves the blocks, and when decode is called."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvscope.model.errors import InputError
from kvscope.model.splits import Splits

CONNECTORS = ("push", "pull")
DISPATCHES = ("early", "sequential")


@dataclass(frozen=True)
class Mode:
    """A connector and a dispatch."""

    connector: str
    dispatch: str

    def __str__(self) -> str:
        return f"{self.connector}, {self.dispatch}"

    @property
    def early(self) -> bool:
        """Whether decode is called without waiting for prefill."""
        return self.dispatch == "early"

    @property
    def push(self) -> bool:
        """Whether prefill writes the blocks."""
        return self.connector == "push"


MODES = (Mode("push", "early"), Mode("push", "sequential"), Mode("pull", "sequential"))
"""Pull has one: decode has to be told where the blocks are, and prefill's answer does that."""


def modes(splits: Splits) -> np.ndarray:
    """(n,) index into MODES of requests that have a TTFT and moved blocks; -1 of the others"""
    push = np.where(splits.knew == 1, 1, np.where(splits.knew == 0, 0, -1))
    found = np.where(splits.shaped("pull"), 2, np.where(splits.shaped("push"), push, -1))
    return np.asarray(np.where(splits.timed, found, -1))


def asked(connector: str | None, dispatch: str | None, hold_ns: int, was: Mode) -> Mode:
    """The mode that is asked for; what is not told stays as it `was`. InputError: there is none such, or it is that."""
    connector = connector or was.connector
    if connector == "pull":
        if dispatch == "early":
            raise InputError("pull has no early dispatch: decode reads blocks of which prefill's answer tells it")
        dispatch = "sequential"
    to = Mode(connector, dispatch or was.dispatch)
    if hold_ns and (to.early or not was.early):
        kept = "an early call waits for nothing" if to.early else "what the router held is in the recording"
        raise InputError(f"--hold is for a call after prefill in place of an early one: {kept}")
    if to == was:
        raise InputError(f"the recording is of {was} already: ask for another --connector or --dispatch")
    return to

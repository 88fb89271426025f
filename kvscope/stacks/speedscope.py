"""Samples in speedscope's file format: a profile for each thread, on one time axis; GIL waits are a frame."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from kvscope.stacks.doing import GIL_WAIT, parted
from kvscope.stacks.profile import UNKNOWN_ROLE
from kvscope.stacks.reading import Stacks, Thread

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
EXPORTER = "kvscope"
GONE = 5
"""A sample stands for the time until the next one, and for so many periods at most."""


def speedscope(stacks: Stacks, title: str) -> Iterator[str]:
    """The JSON document, in pieces."""
    index = _Frames()
    threads = np.unique(stacks.samples["thread"]).tolist()
    order = sorted(threads, key=lambda number: _label(stacks.threads[number]))
    profiles = [_profile(stacks, number, index) for number in order]
    yield from json.JSONEncoder(separators=(",", ":")).iterencode(
        {
            "$schema": SCHEMA,
            "exporter": EXPORTER,
            "name": title,
            "activeProfileIndex": 0,
            "shared": {"frames": index.frames},
            "profiles": profiles,
        }
    )


class _Frames:
    """Frames, each once."""

    def __init__(self) -> None:
        self.frames: list[dict[str, Any]] = []
        self._known: dict[str, int] = {}

    def of(self, frame: str) -> int:
        if frame not in self._known:
            self._known[frame] = len(self.frames)
            function, file = parted(frame)
            line = frame.rpartition(":")[2].rstrip(")")
            place = {"file": file, "line": int(line)} if file and line.isdigit() else {}
            self.frames.append({"name": function} | place)
        return self._known[frame]


def _profile(stacks: Stacks, thread: int, index: _Frames) -> dict[str, Any]:
    samples = stacks.samples[stacks.samples["thread"] == thread]
    begin = int(stacks.samples["t"][0])
    at, found, weights = begin, list[list[int]](), list[int]()
    most = GONE * stacks.period_ns
    ends = [*samples["t"][1:].tolist(), int(samples["t"][-1]) + stacks.period_ns]
    for sample, end in zip(samples, ends, strict=True):
        t = int(sample["t"])
        if t > at:
            found.append([])
            weights.append(t - at)
        at = min(end, t + most)
        waits = [index.of(GIL_WAIT)] if sample["waits"] else []
        found.append([*map(index.of, stacks.frames[sample["stack"]]), *waits])
        weights.append(max(at - t, 0))
    return {
        "type": "sampled",
        "name": _label(stacks.threads[thread]),
        "unit": "nanoseconds",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": found,
        "weights": weights,
    }


def _label(thread: Thread) -> str:
    role = "" if thread.role == UNKNOWN_ROLE else f" {thread.role}"
    return f"{thread.engine}{role}: {thread.name}, pid {thread.pid}, tid {thread.tid}"

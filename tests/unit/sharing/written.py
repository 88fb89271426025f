"""Recordings of events that were made up, and what is said of requests, whatever they and their engines are called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from kvscope.core.critical_path import split
from kvscope.model.events import Events, Process
from kvscope.model.requests import RequestSplit
from kvscope.probe.recording import Writer
from kvscope.probe.texts import encoded
from kvscope.sharing.rounding import rounded_one
from kvscope.sources.opening import open_all
from kvscope.sources.records import RECORD

SIZES = (
    *("prompt_tokens", "cached_tokens", "output_tokens", "transfer_bytes", "descriptors"),
    *("reserved_blocks", "pinned_blocks"),
)
WALL_NS = 1_700_000_000_000_000_000
DURATIONS = (
    *("ttft_ns", "exposed", "hidden", "slack_ns", "class_ns", "coordination_ns", "transfer_bounds_ns"),
    *("dispatch_parts", "reserved_idle_ns", "pinned_ns", "rank_spread_ns", "largest_gap_ns", "age_ns", "idle_ns"),
)
SAME = (
    *("shape", "state", "missing", "ranks", "slowest_rank", "post_thread", "finish_reason", "last_moment", "marks"),
    *("knew_peer", *DURATIONS),
)


def info_of(process: Process, number: int) -> dict[str, Any]:
    """What a ring file's header would say of it."""
    told = (
        {"engine": process.engine, "engine_id": process.engine_id} if process.engine_id else {"engine": process.engine}
    )
    clocks = {"monotonic_ns": 5, "realtime_ns": WALL_NS + 5}
    place = {"boot_id": process.host or "boot", "pid": 1000 + number, "start_ticks": 77 + number}
    return {**place, **clocks, "segments": 1, "started": {**told, **process.started}}


def write(
    events: Events, path: Path, info: Callable[[Process, int], dict[str, Any]] = info_of, late: bool = False
) -> Path:
    """The events as a recording; `late`: texts after what names them."""
    writer_texts = [(encoded(text)[1], text) for text in events.texts.values()]
    with open(path, "wb") as file:
        writer = Writer(file)
        if not late:
            writer.texts(writer_texts)
        for number, process in enumerate(events.processes):
            writer.process(number, info(process, number))
            writer.records(number, 0, _records(events, number))
        if late:
            writer.texts(writer_texts)
        writer.end({"events": len(events)})
    return path


def _records(events: Events, number: int) -> bytes:
    rows = events.rows[events.rows["process"] == number]
    found = np.zeros(len(rows), RECORD)
    for name in events.rows.dtype.names or ():
        if name != "process":
            found[name] = rows[name]
    found["sequence"] = np.arange(1, len(rows) + 1)
    return found.tobytes()


def requests(path: Path) -> list[RequestSplit]:
    """Of a recording."""
    return list(split(open_all([path], None).events))


def said(split: RequestSplit, sizes: Callable[[int], int] = lambda size: size) -> str:
    """All of a request but what it and its engines are called, and when; `sizes`: what has become of sizes."""
    found = {name: value for name, value in asdict(split).items() if name in SAME}
    for name in SIZES:
        value = getattr(split, name)
        found[name] = value if value is None else sizes(value)
    found["path"] = [(span.stage, span.ns, span.ended_by, span.leg, span.step) for span in split.path]
    found["hidden"] = [(span.stage, span.ns, span.ended_by, span.leg, span.step) for span in split.hidden_spans]
    first: dict[str, int] = {}
    for stamp in split.stamps:
        first.setdefault(stamp.leg, stamp.t)
    found["stamps"] = sorted((stamp.leg, stamp.moment, stamp.t - first[stamp.leg]) for stamp in split.stamps)
    return repr(sorted(found.items(), key=lambda item: item[0]))


def alike(original: Path, shared: Path) -> None:
    """Everything is said of the requests of both, sizes aside, which are rounded."""
    before = Counter(said(split, rounded_one) for split in requests(original))
    assert Counter(map(said, requests(shared))) == before

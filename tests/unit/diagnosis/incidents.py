"""Incidents: healthy recordings of a real pair on which a fault fell, as it was reported to show itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from kvscope.core.critical_path import split
from kvscope.model.events import Events, picked, stacked
from kvscope.model.graph import NODE
from kvscope.model.splits import Splits
from kvscope.probe.recorder import key64
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE, STATE_CODE, UNKNOWN, VALUES

from .real import MS, Delays, delayed, everyone, keys, leg_rows, recording, row, second_half, with_rows, without

SECOND = 1000 * MS
Whom = Callable[[Splits], np.ndarray]
BEFORE_MATCH = ("arrived", "taken", "queued", "held", "reserved", "handed", "registration_sent")
DECODE_END = ("notified", "noticed", "ready", "scheduled", "first_token", "finished", "released")
POSTING = ("post_begun", "prepared", "posted", "pending_seen", "done_seen")


@dataclass(frozen=True)
class Incident:
    """What fell on which recording, and what has to be said of it."""

    slug: str
    stage: str
    made: Callable[[], Events]
    healthy: str = ""
    """the recording to compare with; empty: nothing"""

    @property
    def baseline(self) -> Events | None:
        return recording(self.healthy) if self.healthy else None


def last(number: int) -> Whom:
    """The last few requests."""
    return lambda splits: np.arange(len(splits)) >= len(splits) - number


def every(nth: int) -> Whom:
    """Every nth request of the later half."""
    return lambda splits: (np.arange(len(splits)) % nth == 0) & second_half(splits)


def end_of(events: Events) -> int:
    """ns of the latest event"""
    return int(events.rows["t"].max())


def lasting(events: Events, seconds: float = 60) -> Events:
    """The recording goes on for a while in which nothing is asked for, and both engines are alive."""
    t = end_of(events) + round(seconds * SECOND)
    told = {"waiting": 0, "running": 0, "held": 0, "free_blocks": 2048}
    return with_rows(
        events, row(events, "load", "engine", "d0", t, **told), row(events, "load", "engine", "p0", t, **told)
    )


def stepping(events: Events, engine: str, ms: float, begin: int | None = None, end: int | None = None) -> Events:
    """The engine ran one step after the other, all of this length."""
    rest = without(events, lambda rows: (rows["moment"] == MOMENT_CODE["step"]) & of_engine(events, engine, rows))
    begin = int(events.rows["t"].min()) if begin is None else begin
    starts = np.arange(begin, end_of(events) if end is None else end, round(ms * MS))
    made = np.repeat(row(events, "step", "engine", engine, 0), len(starts))
    made["t"], made["step"] = starts + round(ms * MS) - 1, np.arange(len(starts)) + 1
    for name, values in (("begin", starts), ("requests", 1), ("tokens", 100), ("connector_ns", 0)):
        made["values"][:, VALUES["step"].index(name)] = values
    return with_rows(rest, made)


def idle(events: Events, engine: str) -> Events:
    """The engine's steps are those that a request runs in, and no others."""
    splits = split(events)
    begins, ends = splits.time[:, NODE["P.scheduled"]], splits.time[:, NODE["P.computed"]]
    bare = stepping(events, engine, 1e9, 0, 0)
    made = [
        row(events, "step", "engine", engine, int(end), begin=int(begin), requests=1, tokens=100)
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
    ]
    return with_rows(bare, *made)


def with_value(events: Events, value: str, change: Callable[[np.ndarray], np.ndarray], *moments: str) -> Events:
    """Another value where the moments carry one."""
    rows = events.rows.copy()
    for moment in moments:
        at = np.flatnonzero(rows["moment"] == MOMENT_CODE[moment])
        column = rows["values"][at, VALUES[moment].index(value)]
        rows["values"][at, VALUES[moment].index(value)] = np.where(column == UNKNOWN, UNKNOWN, change(column))
    return replace(events, rows=rows)


def seen_in_flight(events: Events) -> Events:
    """Every transfer was in flight when it was posted, and polls found it so until the end."""
    splits = split(events)
    rows = events.rows.copy()
    posted = rows["moment"] == MOMENT_CODE["posted"]
    rows["state"][posted] = STATE_CODE["PROC"]
    rows = picked(rows, rows["moment"] != MOMENT_CODE["pending_seen"])
    posted = rows["moment"] == MOMENT_CODE["posted"]
    done = np.flatnonzero(rows["moment"] == MOMENT_CODE["done_seen"])
    made = picked(rows, done).copy()
    ends = dict(
        zip(
            [*splits.peer_request.tolist(), *splits.request.tolist()],
            [*splits.time[:, NODE["transferred"]].tolist()] * 2,
            strict=True,
        )
    )
    made["moment"], made["values"] = MOMENT_CODE["pending_seen"], UNKNOWN
    begins = dict(zip(rows["request"][posted].tolist(), rows["t"][posted].tolist(), strict=True))
    made["t"] = [max(ends[key] - MS, min(begins[key] + 1, ends[key])) for key in made["request"].tolist()]
    return replace(events, rows=stacked([rows, made]))


def failing(events: Events, whom: Whom, leg: str, reason: str, after: str, ms: float) -> Events:
    """A failure on a leg of some requests, so long after a moment of theirs."""
    splits = split(events)
    engine = {"prefill": "p0", "decode": "d0"}[leg]
    made = []
    for at in np.flatnonzero(whom(splits)).tolist():
        one = np.zeros(len(splits), bool)
        one[at] = True
        (key,) = keys(splits, one, leg)
        t = int(splits.time[at, NODE[after]]) + round(ms * MS)
        made.append(row(events, "failed", leg, engine, t, int(key), reason=reason))
    return with_rows(events, *made)


def held(events: Events, whom: Whom = everyone) -> Events:
    """Decode had no blocks for some requests when they came to its queue."""
    splits = split(events)
    made = [
        row(events, "held", "decode", "d0", int(splits.time[at, NODE["D.queued"]]) + 1000, int(splits.request[at]),
            reason="blocks", blocks=16, free_blocks=3)
        for at in np.flatnonzero(whom(splits)).tolist()
    ]  # fmt: skip
    full = with_value(events, "free_blocks", lambda free: np.full(len(free), 3), "load")
    return with_rows(full, *made)


def dropped(events: Events, whom: Whom, leg: str, *moments: str) -> Events:
    """Without moments of a leg of some requests; without moments named, the whole leg."""
    splits = split(events)
    wanted = keys(splits, whom(splits), leg)
    code = LEG_CODE[leg]
    return without(events, lambda rows: leg_rows(rows, wanted, *moments) & (rows["leg"] == code))


def unmatched(events: Events, whom: Whom) -> Events:
    """Decode registered, and nothing came of it."""
    waits = dropped(events, whom, "decode", *DECODE_END)
    return dropped(waits, whom, "prefill", "matched", *POSTING)


def given_up(events: Events, whom: Whom, after_ms: float) -> Events:
    """Clients of some requests leave so long after decode registered."""
    splits = split(events)
    made = [
        row(events, "finished", "decode", "d0", int(splits.time[at, NODE["registration_sent"]]) + round(after_ms * MS),
            int(splits.request[at]), reason="abort", tokens=0)
        for at in np.flatnonzero(whom(splits)).tolist()
    ]  # fmt: skip
    return with_rows(events, *made)


def renamed(events: Events, whom: Whom, leg: str, name: Callable[[int], str]) -> Events:
    """Another id for a leg of some requests, wherever it is named."""
    splits = split(events)
    rows, texts = events.rows.copy(), dict(events.texts)
    for at in np.flatnonzero(whom(splits)).tolist():
        one = np.zeros(len(splits), bool)
        one[at] = True
        (old,) = keys(splits, one, leg)
        new = key64(name(at))
        texts[new] = name(at)
        for column in ("request", "peer"):
            rows[column][rows[column] == old] = new
    return replace(events, rows=rows, texts=texts)


def together(events: Events, size: int, apart_ms: float) -> Events:
    """Requests in groups whose transfers begin at once, groups so far apart that they do not meet."""
    splits = split(events)
    begin = splits.time[:, NODE["post_begun"]]
    first = int(begin.min())
    group = np.arange(len(splits)) // size
    shift = (first + group * round(apart_ms * MS) - begin) / MS
    return delayed(events, {"origin": lambda _: shift, "P.arrived": lambda _: np.zeros(len(splits))}, everyone)


def other_start(events: Events, engine: str, at: int) -> Events:
    """The engine was started anew at that time: what it says later is said by another of the same name."""
    rows, processes = events.rows.copy(), list(events.processes)
    for index, process in enumerate(events.processes):
        if process.engine == engine:
            rows["process"][(rows["process"] == index) & (rows["t"] >= at)] = len(processes)
            processes.append(replace(process, engine_id="11111111-new", pid=process.pid + 1000))
    return replace(events, rows=rows, processes=tuple(processes))


def of_engine(events: Events, engine: str, rows: np.ndarray) -> np.ndarray:
    """(rows,) bool: what an engine's processes stamped"""
    return np.asarray(np.array([process.engine == engine for process in events.processes])[rows["process"]])


def push(delays: Delays, whom: Whom = everyone, sequential: bool = False) -> Events:
    """Delays in the recording of an early push."""
    return delayed(recording("push-early"), delays, whom, sequential)


def pull(delays: Delays, whom: Whom = everyone) -> Events:
    """Delays in the recording of a pull."""
    return delayed(recording("pull"), delays, whom)


def per_descriptor(us: float) -> Callable[[Splits], np.ndarray]:
    """ms: so many us for each descriptor"""
    return lambda splits: splits.descriptors * us / 1000


def per_mebibyte(ms: float) -> Callable[[Splits], np.ndarray]:
    """ms: so many for each MiB"""
    return lambda splits: splits.transfer_bytes / (1 << 20) * ms

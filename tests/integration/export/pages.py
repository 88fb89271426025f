"""What Perfetto's own page says of a trace, beside what kvscope says of the recording."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from docs.pictures.perfetto_page import PerfettoPage
from kvscope.model.events import Events
from kvscope.model.requests import RequestSplit
from kvscope.probe.vocabulary import MOMENT_CODE, THREADS, UNKNOWN, VALUES

Rows = list[list[object]]

PUSH = ("registration_sent", "registration_received", "matched", "submit", "notified", "noticed")
PULL = ("submit", "done_seen", "noticed")
DISPATCH = (("prefill_sent", "arrived"), ("decode_sent", "arrived"))

PATH = """
SELECT extract_arg(arg_set_id, 'debug.request'), name, ts, dur, extract_arg(arg_set_id, 'debug.class'), track_id
FROM slice WHERE category = '{category}' ORDER BY ts, id
"""
REQUESTS = """
SELECT extract_arg(arg_set_id, 'debug.request'), ts, dur, extract_arg(arg_set_id, 'debug.ttft_ns'), track_id
FROM slice WHERE category = 'request'
"""
FLOWS = """
SELECT a.name, b.name, extract_arg(b.arg_set_id, 'debug.request'), a.ts <= b.ts
FROM flow JOIN slice a ON flow.slice_out = a.id JOIN slice b ON flow.slice_in = b.id
"""
TRACKS = """
SELECT engine.name, process.name, thread.name, thread.id
FROM track thread JOIN track process ON thread.parent_id = process.id JOIN track engine ON process.parent_id = engine.id
WHERE engine.parent_id IS NULL AND process.name GLOB '*process*'
"""
COUNTERS = """
SELECT engine.name, track.name, counter.ts, counter.value
FROM counter JOIN track ON counter.track_id = track.id
LEFT JOIN track load ON track.parent_id = load.id LEFT JOIN track engine ON load.parent_id = engine.id
ORDER BY counter.ts
"""
STEPS = """
SELECT thread.name, slice.ts, slice.dur FROM slice JOIN track thread ON slice.track_id = thread.id
WHERE category IN ('step', 'idle')
"""
FAULTS = "SELECT name, value FROM stats WHERE severity != 'info' AND value > 0"


def nothing_was_refused(page: PerfettoPage) -> None:
    assert page.ask(FAULTS) == []
    assert page.ask("SELECT count(*) FROM slice WHERE dur < 0") == [[0]], "every slice has an end"


def paths_add_up(page: PerfettoPage, requests: Iterable[RequestSplit]) -> None:
    """The path of each request, slice by slice, on a track of its own below the request's."""
    above = dict(page.ask("SELECT id, parent_id FROM track"))
    whole = {name: rest for name, *rest in page.ask(REQUESTS)}
    for category in ("path", "hidden"):
        drawn: dict[object, list[tuple[object, ...]]] = {}
        for name, *rest in page.ask(PATH.format(category=category)):
            drawn.setdefault(name, []).append(tuple(rest))
        for request in requests:
            spans = request.path if category == "path" else request.hidden_spans
            found = drawn.get(request.request, [])
            there = Counter(one[:3] for one in found)
            expected = Counter[tuple[object, ...]]((span.stage, span.begin, span.ns) for span in spans)
            assert there == expected, (request.request, category, there - expected, expected - there)
            begin, length, ttft, track = whole[request.request]
            assert {above[one[4]] for one in found} <= {track}
            if category == "path" and request.ttft_ns is not None:
                assert sum(int(str(one[2])) for one in found) == request.ttft_ns == length == ttft
                assert begin == request.origin
    assert set(whole) == {request.request for request in requests}


def arrows_are_there(page: PerfettoPage, requests: Iterable[RequestSplit], chain: tuple[str, ...]) -> None:
    """Every request has its own, forward in time, and there are no others but those of handshakes."""
    wanted = Counter[tuple[str, str]]()
    for _ in requests:
        wanted.update((*pairwise(chain), *DISPATCH))
    found = page.ask(FLOWS)
    pairs = Counter((first, second) for first, second, _, _ in found if second != "handshake")
    assert pairs == wanted
    assert all(forward for *_, forward in found)


def threads_are_named(page: PerfettoPage, events: Events) -> None:
    found = {(engine, process, thread) for engine, process, thread, _ in page.ask(TRACKS)}
    told = {process.pid: process for process in events.processes}
    expected = set()
    for process in told.values():
        engine = {"p0": "2 prefill p0", "d0": "3 decode d0", "router": "4 router"}[process.engine]
        kind = process.started.get("process") or process.started["kind"]
        mine = events.rows[events.rows["process"] == events.processes.index(process)]
        mine = mine[mine["moment"] != MOMENT_CODE["load"]]
        for role in {THREADS[code] for code in mine["thread"].tolist()}:
            thread = role if role == process.engine else f"{process.engine} {role}"
            expected.add((engine, f"{kind} process, pid {process.pid}", thread))
    assert expected <= found, expected - found
    # Threads of which nothing but stacks is known have nothing of their own.
    busy = {track for (track,) in page.ask("SELECT DISTINCT track_id FROM slice")}
    assert not {track for *names, track in page.ask(TRACKS) if tuple(names) not in expected} & busy


def steps_are_all_there(page: PerfettoPage, events: Events) -> None:
    rows = events.rows[events.rows["moment"] == MOMENT_CODE["step"]]
    begin = rows["values"][:, VALUES["step"].index("begin")]
    found = page.ask(STEPS)
    assert Counter((t, length) for _, t, length in found) == Counter(
        zip(begin.tolist(), (rows["t"] - begin).tolist(), strict=True)
    )


def counters_end_right(page: PerfettoPage, events: Events) -> None:
    found: dict[tuple[object, object], object] = {
        (engine, name): value for engine, name, _, value in page.ask(COUNTERS)
    }
    for root, engine in (("2 prefill p0", "p0"), ("3 decode d0", "d0")):
        numbers = [number for number, process in enumerate(events.processes) if process.engine == engine]
        rows = events.rows[(events.rows["moment"] == MOMENT_CODE["load"]) & np.isin(events.rows["process"], numbers)]
        last = rows[rows["t"].argmax()]
        for name, value in zip(VALUES["load"], last["values"].tolist(), strict=False):
            assert value != UNKNOWN
            assert found[root, name] == value
    assert found[None, "in hand-off"] == 0

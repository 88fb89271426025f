"""Sampled stacks lie below the threads that they are of, each frame as long as it was there."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscope.export.perfetto.samples import beside, lasting
from kvscope.export.perfetto.trace import Trace
from kvscope.model.events import Events
from kvscope.stacks.reading import Stacks, read_stacks
from kvscope.stacks.writing import StacksFile

from ...core.scene import MS, events_of, moments, push_early
from .reading import Told, parts_of, read

RUN, STEP, POLL = "run (threading.py:9)", "step (vllm/v1/engine/core.py:4)", "transfer (nixl_cu12/_api.py:7)"
WAIT = "wait (threading.py:6)"
Line = tuple[int, str, tuple[str, ...], bool]
"""ms, role, stack, whether it slept"""


def sampled(folder: Path, lines: list[Line], pid: int = 5, boot_id: str = "boot-a-and-more") -> Stacks:
    file = StacksFile(folder / "stacks.jsonl", {"period_ns": 10 * MS, "boot_id": boot_id, "tool": "py-spy 0"})
    for ms, role, frames, idle in lines:
        thread = file.thread(pid, 70 + len(role), f"a-{role}", "p0", role)
        file.sample(ms * MS, thread, file.stack(frames), False, idle, False)
    file.close()
    return read_stacks(folder / "stacks.jsonl")


def traced(stacks: Stacks, host: str = "boot-a-a") -> Told:
    """The trace of a push whose prefill engine is one process, with these stacks."""
    events = events_of([*push_early(), *moments({"engine": "p0", "thread": "worker"}, load=50)])
    told = [replace(process, pid=5 if process.engine == "p0" else 6, host=host) for process in events.processes]
    written: list[bytes] = []
    trace = Trace(written.append)
    for part in parts_of(Events(events.rows, tuple(told), events.texts)):
        trace.take(part)
    trace.complete([stacks])
    return read(b"".join(written))


def seen(told: Told, category: str) -> list[tuple[str, float, float, int]]:
    return [(each.name, each.begin / MS, each.ns / MS, each.depth) for each in told.of(category)]


def test_frames_last_as_long_as_they_were_seen(tmp_path: Path) -> None:
    lines: list[Line] = [
        (10, "worker", (RUN, STEP, POLL), False),
        (20, "worker", (RUN, STEP, POLL), False),
        (30, "worker", (RUN, STEP), False),
        (40, "worker", (RUN, WAIT), True),
    ]
    told = traced(sampled(tmp_path, lines))
    assert seen(told, "stack") == [
        ("run", 10, 40, 0),
        ("step", 10, 30, 1),
        ("transfer", 10, 20, 2),
        ("wait", 40, 10, 1),
    ]
    assert seen(told, "doing") == [("NIXL post", 10, 20, 0), ("engine loop", 30, 10, 0), ("waiting", 40, 10, 0)]
    assert {each.track.split("/", 2)[2] for each in told.of("stack")} == {"p0 worker/p0 worker: stack"}
    assert {each.args["file"] for each in told.of("stack", "step")} == {"vllm/v1/engine/core.py"}


def test_where_nothing_was_sampled_for_long_there_is_a_gap(tmp_path: Path) -> None:
    lines: list[Line] = [(10, "worker", (RUN,), False), (20, "worker", (RUN,), False), (110, "worker", (RUN,), False)]
    assert seen(traced(sampled(tmp_path, lines)), "stack") == [("run", 10, 60, 0), ("run", 110, 10, 0)]


def test_threads_whose_role_is_not_known_have_their_own_names(tmp_path: Path) -> None:
    told = traced(sampled(tmp_path, [(10, "unknown", (RUN,), False)]))
    (each,) = told.of("stack")
    assert each.track.split("/", 2)[2] == "p0 a-unknown/p0 a-unknown: stack"


def test_a_thread_without_a_frame_of_python(tmp_path: Path) -> None:
    told = traced(sampled(tmp_path, [(10, "worker", (), False)]))
    assert seen(told, "doing") == [("no Python frame", 10, 10, 0)]
    assert not told.of("stack")


@pytest.mark.parametrize(("pid", "host"), [(4, "boot-a-a"), (5, "boot-b-b")])
def test_stacks_of_processes_that_the_recording_does_not_know(tmp_path: Path, pid: int, host: str) -> None:
    told = traced(sampled(tmp_path, [(10, "worker", (RUN,), False)], pid=pid), host)
    assert not told.of("stack")


def test_samples_outside_of_the_recording_are_left_out(tmp_path: Path) -> None:
    lines: list[Line] = [(10, "worker", (RUN,), False), (900, "worker", (STEP,), False)]
    assert [each.name for each in traced(sampled(tmp_path, lines)).of("stack")] == ["run"]


def test_stacks_are_looked_for_beside_recordings(tmp_path: Path) -> None:
    recording = tmp_path / "recording.kvs"
    assert beside([str(recording)]) == []
    sampled(tmp_path, [])
    assert beside([str(recording), str(tmp_path)]) == [tmp_path / "stacks.jsonl"]


FRAMES = st.lists(st.tuples(st.sampled_from("abc"), st.just("f")), max_size=4).map(tuple)
STACKS = st.lists(FRAMES, min_size=1, max_size=12)
GAPS = st.lists(st.sampled_from([1, 1, 1, 9]), min_size=12, max_size=12)


@given(STACKS, GAPS)
def test_at_each_instant_the_stack_that_was_sampled(stacks: list[tuple[tuple[str, str], ...]], gaps: list[int]) -> None:
    begin = [sum(gaps[:index]) for index in range(len(stacks))]
    until = [min(now + 3, then) for now, then in pairwise([*begin, begin[-1] + 1])]
    found = lasting(stacks, begin, until)
    for stack, t, end in zip(stacks, begin, until, strict=True):
        for instant in range(t, end):
            assert tuple(frame for since, last, frame in found if since <= instant < last) == stack
    assert sum(end - since for since, end, _ in found) == sum(
        len(stack) * (end - t) for stack, t, end in zip(stacks, begin, until, strict=True)
    )

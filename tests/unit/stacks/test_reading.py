"""What was written is what is read; what is damaged is counted, and never ends it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscope.model.errors import InputError
from kvscope.stacks.reading import UNTOLD, Thread, read_stacks
from kvscope.stacks.writing import StacksFile

HEADER = {"period_ns": 10_000_000, "boot_id": "b00t", "tool": "py-spy 0.4.3"}
FRAMES = ("run (core.py:1)", "step (core.py:2)")


def written(path: Path) -> Path:
    file = StacksFile(path, HEADER)
    writer = file.thread(7, 8, "nixl-push-writer", "p0", "unknown")
    file.sample(300, writer, file.stack(FRAMES), gil=True, idle=False, waits=False)
    core = file.thread(7, 7, "MainThread", "p0", "core")
    file.sample(300, core, file.stack(FRAMES[:1]), gil=None, idle=None, waits=False)
    file.thread(7, 8, "nixl-push-writer", "p0", "writer")
    file.sample(100, writer, file.stack(FRAMES), gil=False, idle=False, waits=True)
    file.clock(7, 100, 300, 250_000)
    file.note("d0, pid 9: it has ended")
    file.close()
    return path


def test_round_trip(tmp_path: Path) -> None:
    stacks = read_stacks(written(tmp_path / "stacks.jsonl"))
    assert (stacks.period_ns, stacks.boot_id, stacks.tool) == tuple(HEADER.values())
    assert stacks.threads == (
        Thread(7, 8, "nixl-push-writer", "p0", "writer"),
        Thread(7, 7, "MainThread", "p0", "core"),
    )
    assert stacks.frames == (FRAMES, FRAMES[:1])
    told = [tuple(sample) for sample in stacks.samples.tolist()]
    assert told == [(100, 0, 0, 0, 0, True), (300, 0, 0, 1, 0, False), (300, 1, 1, UNTOLD, UNTOLD, False)]
    assert [(clock.pid, clock.error_ns) for clock in stacks.clocks] == [(7, 250_000)]
    assert stacks.notes == ("d0, pid 9: it has ended",)


def test_its_lines_are_as_documented(tmp_path: Path) -> None:
    first, *lines = map(json.loads, written(tmp_path / "stacks.jsonl").read_text().splitlines())
    assert first == {"stacks": 1, **HEADER}
    assert {next(iter(line)) for line in lines} == {"thread", "stack", "t", "clock", "note"}
    assert {"t": 100, "thread": 0, "stack": 0, "gil": False, "idle": False, "waits": True} in lines


def test_what_is_there_already_is_not_replaced(tmp_path: Path) -> None:
    path = written(tmp_path / "stacks.jsonl")
    with pytest.raises(FileExistsError):
        StacksFile(path, HEADER)


def test_a_file_that_was_cut_is_read_up_to_there(tmp_path: Path) -> None:
    path = written(tmp_path / "stacks.jsonl")
    path.write_bytes(path.read_bytes()[:-20])
    stacks = read_stacks(path)
    assert len(stacks.samples) == 3
    assert stacks.notes[-1].endswith("1 line cannot be read, and what they told is missing")


@given(data=st.data())
def test_no_damage_ends_the_reading(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = written(tmp_path_factory.mktemp("damaged") / "stacks.jsonl")
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 20))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(raw)
    try:
        stacks = read_stacks(path)
    except InputError:
        return
    assert all(sample["thread"] < len(stacks.threads) for sample in stacks.samples)
    assert all(sample["stack"] < len(stacks.frames) for sample in stacks.samples)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "holds no sampled stacks"),
        (b"KVSCREC\n\x01\x00", "holds no sampled stacks"),
        (b'{"t": 1}\n', "holds no sampled stacks"),
        (b'{"stacks": 2, "period_ns": 1, "boot_id": "", "tool": ""}\n', "version 2, this reader knows 1"),
    ],
)
def test_what_is_no_such_file_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(InputError, match=said):
        read_stacks(path)


def test_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_stacks(tmp_path / "none")


def test_a_pipe_in_place_of_the_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "stacks.jsonl")
    with pytest.raises(InputError, match="cannot be read: not a regular file"):
        read_stacks(tmp_path / "stacks.jsonl")

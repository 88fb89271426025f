"""What is sampled of a process is what it did, at the times at which it did it, and it is never stopped for it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from kvscope.model.errors import InputError
from kvscope.stacks.reading import Stacks, read_stacks
from kvscope.stacks.sampler import Sampler
from kvscope.stacks.targets import recording_in

from ..probe.conftest import needs_root
from .conftest import Work, Worked, names, sample, until

KNOWN = {"computes", "sorts", "rests"}
# Seizes every thread that is named, and lets go of them when it ends.
TRACER = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for tid in sys.argv[1:]:
    if libc.ptrace(0x4206, int(tid), None, None):
        sys.exit(os.strerror(ctypes.get_errno()))
print("seized", flush=True)
sys.stdin.readline()
"""


def told(stacks: Stacks, worked: Worked, role: str = "writer") -> list[tuple[str, str, int]]:
    """(what was sampled, what was done at that time, index of the sample), of samples of which both are known."""
    pairs = []
    for index in np.flatnonzero(stacks.roles() == role).tolist():
        sample_ = stacks.samples[index]
        seen = KNOWN & set(names(stacks.frames[sample_["stack"]]))
        done = worked.did(int(sample_["t"]))
        if seen and done:
            pairs.append((seen.pop(), done, index))
    return pairs


@pytest.mark.slow
def test_stacks_are_those_of_the_time_that_is_told(work: Work, run_dir: Path, tmp_path: Path) -> None:
    """Over several stretches, each with a py-spy of its own. What changes every 20 ms is sampled every 10, and between
    two looks of the kernel's (2.5 ms) it is not known which came first."""
    worked = work("p0")
    stacks = sample(run_dir, tmp_path / "stacks.jsonl", 800, stretch_s=3)
    pairs = told(stacks, worked)
    assert len(pairs) > 400
    right = sum(seen == done for seen, done, _ in pairs)
    assert right / len(pairs) > 0.85, f"{right} of {len(pairs)}"
    # Shifted by a few ms either way, they fit less well: the clock is right.
    for shift in (-8_000_000, 8_000_000):
        shifted = [worked.did(int(stacks.samples["t"][index]) + shift) == seen for seen, _, index in pairs]
        assert sum(shifted) < right
    assert {clock.pid for clock in stacks.clocks} == {worked.pid}
    assert len(stacks.clocks) >= 2


def test_threads_have_their_roles(work: Work, run_dir: Path, tmp_path: Path) -> None:
    worked = work("p0")
    stacks = sample(run_dir, tmp_path / "stacks.jsonl", 100)
    assert {(thread.engine, thread.role, thread.name) for thread in stacks.threads} == {
        ("p0", "core", "MainThread"),
        ("p0", "writer", "nixl-push-writer-0"),
    }
    assert {thread.pid for thread in stacks.threads} == {worked.pid}
    assert {thread.tid for thread in stacks.threads} <= set(map(int, os.listdir(f"/proc/{worked.pid}/task")))
    assert np.mean(stacks.samples["gil"] >= 0) > 0.5


def test_a_thread_that_waits_for_the_gil_is_told_from_one_that_rests(work: Work, run_dir: Path, tmp_path: Path) -> None:
    worked = work("p0", "spinner")
    stacks = sample(run_dir, tmp_path / "stacks.jsonl", 300)
    samples = stacks.samples
    writer = samples[stacks.roles() == "writer"]
    assert 0.1 < writer["waits"].mean() < 0.9
    holds = samples[samples["gil"] == 1]
    names_of = {stacks.threads[index].name for index in holds["thread"].tolist()}
    assert "spinner" in names_of
    spinner = samples[[stacks.threads[index].name == "spinner" for index in samples["thread"].tolist()]]
    assert (spinner["gil"] == 1).all()
    assert not spinner["waits"].any()
    core = samples[stacks.roles() == "core"]
    assert not core["waits"].any()
    assert (core["idle"][core["idle"] >= 0] == 1).all()
    assert worked.process.poll() is None


def test_without_another_thread_nobody_waits_for_the_gil(work: Work, run_dir: Path, tmp_path: Path) -> None:
    work("p0")
    stacks = sample(run_dir, tmp_path / "stacks.jsonl", 150)
    assert stacks.samples["waits"].mean() < 0.02


@needs_root
def test_it_works_while_another_tracer_sits_on_every_thread(work: Work, run_dir: Path, tmp_path: Path) -> None:
    """A thread has one tracer at most: so it is not by ptrace that it is sampled, which alone could stop it."""
    worked = work("p0")
    tids = os.listdir(f"/proc/{worked.pid}/task")
    pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    tracer = subprocess.Popen([sys.executable, "-c", TRACER, *tids], text=True, **pipes)  # type: ignore[call-overload]
    try:
        assert tracer.stdout.readline() == "seized\n"
        stacks = sample(run_dir, tmp_path / "stacks.jsonl", 100)
        tracers = {_tracer(worked.pid, tid) for tid in tids}
    finally:
        tracer.communicate()
    assert tracers == {tracer.pid}
    assert len(stacks.samples) > 50


def _tracer(pid: int, tid: str) -> int:
    status = Path(f"/proc/{pid}/task/{tid}/status").read_text()
    return int(status.partition("TracerPid:")[2].split()[0])


def test_a_process_that_ends_leaves_what_was_sampled(work: Work, run_dir: Path, tmp_path: Path) -> None:
    first, second = work("p0"), work("d0")

    def kill(sampler: Sampler) -> None:
        first.process.kill()
        first.process.wait()
        until(lambda: sampler.living == 1, "the end of a process was not noticed")

    stacks = sample(run_dir, tmp_path / "stacks.jsonl", 100, meanwhile=kill)
    pids = {stacks.threads[index].pid for index in stacks.samples["thread"].tolist()}
    assert second.pid in pids


def test_all_of_them_end(work: Work, run_dir: Path, tmp_path: Path) -> None:
    worked = work("p0")
    with Sampler(recording_in(run_dir), tmp_path / "stacks.jsonl") as sampler:
        worked.process.kill()
        worked.process.wait()
        until(lambda: sampler.living == 0, "the end of the last process was not noticed")
    read_stacks(tmp_path / "stacks.jsonl")


def test_no_py_spy_is_left_behind(work: Work, run_dir: Path, tmp_path: Path) -> None:
    work("p0")

    def children() -> list[str]:
        tasks = Path("/proc/self/task").iterdir()
        pids = [pid for task in tasks for pid in (task / "children").read_text().split()]
        return [pid for pid in pids if "py-spy" in Path(f"/proc/{pid}/cmdline").read_text()]

    with Sampler(recording_in(run_dir), tmp_path / "stacks.jsonl", stretch_s=1):
        until(lambda: len(children()) >= 1, "no py-spy runs")
    assert children() == []


def test_what_is_there_is_not_replaced(work: Work, run_dir: Path, tmp_path: Path) -> None:
    work("p0")
    path = tmp_path / "stacks.jsonl"
    path.write_text("mine\n")
    with pytest.raises(InputError, match="is there already"), Sampler(recording_in(run_dir), path):
        pass
    assert path.read_text() == "mine\n"


def test_nothing_to_sample(run_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no process"), Sampler(recording_in(run_dir), tmp_path / "stacks.jsonl"):
        pass
    assert not (tmp_path / "stacks.jsonl").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
def test_a_full_disk_is_told(work: Work, run_dir: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    work("p0")
    sampler = Sampler(recording_in(run_dir), tmp_path / "stacks.jsonl", stretch_s=1)
    sampler.__enter__()
    with sampler._file._file, open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(sampler._file, "_file", full)
        until(lambda: sampler._failed is not None, "the full disk was not noticed")
        with pytest.raises(InputError, match=r"no space left on device; no sample in .*stacks\.jsonl can be read"):
            sampler.__exit__(None, None, None)


def test_interrupts_of_the_terminal_do_not_reach_py_spy(work: Work, run_dir: Path, tmp_path: Path) -> None:
    """Ctrl-C goes to a whole process group; py-spy has one of its own."""
    work("p0")
    with Sampler(recording_in(run_dir), tmp_path / "stacks.jsonl") as sampler:
        assert os.getpgid(sampler._courses[0]._spy._process.pid) != os.getpgrp()


OTHERS = sorted(
    path
    for path in Path(sys.base_prefix).parent.glob("3.*/bin/python3")
    if path.parts[-3].split(".")[1] in ("12", "13", "14")
)
"""Other releases of Python that lie beside the one that runs this."""


@pytest.mark.slow
@pytest.mark.parametrize("python", OTHERS, ids=lambda path: path.parts[-3])
def test_the_gil_of_other_releases_is_found(work: Work, run_dir: Path, tmp_path: Path, python: Path) -> None:
    work("p0", "spinner", python=str(python))
    stacks = sample(run_dir, tmp_path / "stacks.jsonl", 300)
    writer = stacks.samples[stacks.roles() == "writer"]
    assert writer["waits"].mean() > 0.05
    holds = stacks.samples[stacks.samples["gil"] == 1]
    assert "spinner" in {stacks.threads[index].name for index in holds["thread"].tolist()}


def unshared(folder: Path, *how: str) -> str:
    """A Python that runs in namespaces of its own."""
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec unshare {" ".join(how)} --fork --kill-child {sys.executable} "$@"\n')
    python.chmod(0o755)
    return str(python)


@needs_root
def test_a_process_of_a_container_is_sampled_from_its_host(work: Work, run_dir: Path, tmp_path: Path) -> None:
    """It is its own pid 1, and its threads have numbers of their own; the ring file has those."""
    work("p0", "spinner", python=unshared(tmp_path, "--pid", "--mount-proc"))
    (target,) = recording_in(run_dir)
    assert (target.own_pid, target.pid > 1) == (1, True)
    stacks = sample(run_dir, tmp_path / "stacks.jsonl", 200)
    roles = {(thread.role, thread.pid, thread.tid) for thread in stacks.threads}
    assert ("core", target.pid, 1) in roles
    writer = stacks.samples[stacks.roles() == "writer"]
    assert writer["waits"].mean() > 0.05
    assert (writer["idle"] >= 0).mean() > 0.5


@needs_root
def test_times_are_by_the_clock_of_the_process(work: Work, run_dir: Path, tmp_path: Path) -> None:
    """In a time namespace it may be days ahead; its moments are by it."""
    ahead_s = 1_000_000
    worked = work("p0", python=unshared(tmp_path, "--time", "--monotonic", str(ahead_s)))
    begun = time.monotonic_ns()
    stacks = sample(run_dir, tmp_path / "stacks.jsonl", 200)
    shifted = stacks.samples["t"] - ahead_s * 10**9
    assert begun < shifted.min() < shifted.max() < time.monotonic_ns()
    pairs = told(stacks, worked)
    assert len(pairs) > 50
    assert sum(seen == done for seen, done, _ in pairs) > 0.8 * len(pairs)

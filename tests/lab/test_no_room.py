"""Where kvscope cannot record, or must not, the engine serves all the same, and at most one line says why."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from kvscope.lab import environment, overlay
from kvscope.lab.engine import EngineOptions
from kvscope.lab.pair import PairOptions
from kvscope.lab.progress import Silent
from kvscope.probe.vocabulary import MOMENT_CODE
from kvscope.sources.rings import read_rings
from tests.lab.rig import Change, Rig, handed_over, prompt, rows_of

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount"),
]

SERVED = 3
"""Requests by each pair."""
PUSH_WORKER = "vllm/distributed/kv_transfer/kv_connector/v1/nixl/push_worker.py"


def with_rings(folder: Path) -> Change:
    """An engine with a run directory of its own."""
    folder.mkdir()
    return lambda options, _role: replace(options, run_dir=folder)


def with_path(*folders: Path) -> Change:
    """An engine that finds these folders' packages after kvscope and before its environment's."""

    def change(options: EngineOptions, _role: str) -> EngineOptions:
        path = os.pathsep.join(map(str, (options.overlay, *folders)))
        return replace(options, env={**options.env, "PYTHONPATH": path})

    return change


def site_packages(python: Path) -> Path:
    """Where an interpreter's vLLM is."""
    ask = "import importlib.util as u, pathlib as p; print(p.Path(u.find_spec('vllm').origin).parents[1])"
    return Path(subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.strip())


def changed_by_a_byte(python: Path, folder: Path) -> Path:
    """A tree with vLLM as the interpreter has it, but for one byte of a file that would be patched."""
    shutil.copytree(site_packages(python) / "vllm", folder / "vllm", copy_function=os.symlink)
    file = folder / PUSH_WORKER
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(data + b"\n")
    return folder


TOLD = {"off": {"KVSCOPE": "off"}, "not loaded": {"VLLM_PLUGINS": "another"}, "import": {}}
"""How kvscope is loaded -> what says so."""


@pytest.fixture(scope="module")
def loading(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[subprocess.CompletedProcess[str], Path]]:
    """vLLM's own way of loading plugins, without an engine: each as it is told to, all at once, beside no engine."""
    python = environment.prepare(Silent()).python
    ask = "from vllm.plugins import load_general_plugins as load; load(); import kvscope.vllm.status as s; print(s.how)"
    env = {**os.environ, "PYTHONPATH": str(overlay.made(environment.home())), "PYTHONSAFEPATH": "1"}

    def load(how: str) -> tuple[subprocess.CompletedProcess[str], Path]:
        run_dir = tmp_path_factory.mktemp("loading")
        its = {**env, "KVSCOPE_RUN_DIR": str(run_dir), **TOLD[how]}
        return subprocess.run([python, "-c", ask], capture_output=True, text=True, timeout=300, env=its), run_dir

    with ThreadPoolExecutor(len(TOLD)) as pool:
        return dict(zip(TOLD, pool.map(load, TOLD), strict=True))


@pytest.mark.parametrize("how", TOLD)
def test_it_stays_out_where_it_is_told_to(
    loading: dict[str, tuple[subprocess.CompletedProcess[str], Path]], how: str
) -> None:
    done, run_dir = loading[how]
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == how
    assert "kvscope:" not in done.stderr
    assert list(run_dir.iterdir()) == [], "a process that is no engine opens no ring"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """p0: 4 MiB for its rings; d0: none; p1: read-only; d1: a vLLM that nobody knows."""
    scratch = tmp_path_factory.mktemp("room")
    unknown = changed_by_a_byte(environment.prepare(Silent()).python, scratch / "unknown")
    folders = {name: scratch / name for name in ("p0", "d0", "p1")}
    changes = {name: with_rings(folder) for name, folder in folders.items()} | {"d1": with_path(unknown)}
    full = f"head -c 5m /dev/zero > {folders['d0']}/other 2>/dev/null || true"
    mounts = {
        "p0": f"mount -t tmpfs -o size=4m none {folders['p0']}",
        "d0": f"mount -t tmpfs -o size=4m none {folders['d0']}; {full}",
        "p1": f"mount -t tmpfs -o ro none {folders['p1']}",
    }
    made = Rig(PairOptions(connector="pull", prefills=2, decodes=2), scratch / "pair", changes, mounts)
    with made:
        for number, (prefill, decode) in enumerate((("p0", "d0"), ("p1", "d1")) * SERVED):
            handed_over(made, f"served-{number}", prompt(300, number), prefill, decode)
        yield made


def lines(rig: Rig, name: str) -> list[str]:
    """What kvscope's lines in an engine's log say."""
    assert rig[name].healthy()
    return [line.partition("kvscope: ")[2] for line in rig[name].process.lines() if "kvscope: " in line]


def test_a_small_run_directory_is_shared_by_the_engine_s_processes(rig: Rig) -> None:
    inside = Path(f"/proc/{rig['p0'].process.members()[-1]}/root{rig['p0'].process.log.parents[1] / 'p0'}")
    events = read_rings(inside)
    assert {process.started["process"] for process in events.processes} == {"core", "worker"}
    assert len(rows_of(events, MOMENT_CODE["computed"])) == SERVED, "and what it serves is in there"
    assert len(lines(rig, "p0")) <= len(events.processes)
    assert all(said.startswith("no room for the events of thread ") for said in lines(rig, "p0"))


def test_a_full_one_and_a_read_only_one_are_told_once_by_each_process_that_would_record(rig: Rig) -> None:
    for name, why in (("d0", "No space left on device"), ("p1", "Read-only file system")):
        told = lines(rig, name)
        assert len(told) == len(("core", "worker")), told
        assert all(said.startswith("cannot record in ") and why in said for said in told), told


def test_an_unknown_vllm_is_told_once_and_listed(rig: Rig) -> None:
    (said,) = lines(rig, "d1")
    assert said.startswith("vLLM runs uninstrumented: ")
    assert PUSH_WORKER in said
    noted = [process for process in read_rings(rig.run_dir).processes if process.note]
    assert noted
    assert all(PUSH_WORKER in process.note for process in noted)

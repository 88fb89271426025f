"""The doctor on real small processes that carry an engine's title."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvscope.cli import main
from kvscope.sources.run_dirs import elsewhere, none_in

from .conftest import SCRIPT, Recording, Start

TITLE = "VLLM::EngineCore"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A /proc that shows only whom `shown` adds."""
    folder = tmp_path / "proc"
    folder.mkdir()
    for name in ("self", "stat", "uptime"):
        (folder / name).symlink_to(f"/proc/{name}")
    return folder


def shown(proc: Path, writer: Recording) -> None:
    (proc / str(writer.process.pid)).symlink_to(f"/proc/{writer.process.pid}")


def doctor(capsys: pytest.CaptureFixture[str], proc: Path, run_dir: Path) -> tuple[int, dict[str, Any]]:
    code = main(["doctor", "--json", "--proc", str(proc), "--run-dir", str(run_dir)])
    return code, json.loads(capsys.readouterr().out)


def titled(engine: str) -> Recording:
    """A recording process that shows an engine's title."""
    return Recording(engine, [TITLE, str(SCRIPT), engine])


def test_nobody_there(capsys: pytest.CaptureFixture[str], proc: Path, run_dir: Path) -> None:
    assert main(["doctor", "--proc", str(proc), "--run-dir", str(run_dir)]) == 3
    assert "no vLLM process here" in capsys.readouterr().err


def test_an_engine_that_records(capsys: pytest.CaptureFixture[str], proc: Path, run_dir: Path, start: Start) -> None:
    writer = start("p0", titled)
    writer.tell("write 20")
    shown(proc, writer)
    code, found = doctor(capsys, proc, run_dir)
    (process,) = found["processes"]
    assert (code, process["state"], process["engine"]) == (0, "instrumented", "p0")
    assert process["pid"] == writer.process.pid
    assert process["ring"]["threads"][0]["published"] == 20
    assert process["versions"]["vllm"] == "0.32.0"
    assert abs(process["wall_moved_ns"]) < 10**9
    assert main(["doctor", "--proc", str(proc), "--run-dir", str(run_dir)]) == 0
    assert "as it should be: 1 of 1 vLLM process" in capsys.readouterr().out


def test_a_file_that_is_gone_hides_no_ring(
    capsys: pytest.CaptureFixture[str], proc: Path, run_dir: Path, start: Start
) -> None:
    writer = start("p0", titled)
    writer.tell("write 20")
    shown(proc, writer)
    (run_dir / "1-1-ffffff.ring").symlink_to(run_dir / "gone")
    code, found = doctor(capsys, proc, run_dir)
    assert (code, found["processes"][0]["state"]) == (0, "instrumented")


def test_a_proc_that_is_not_there_is_no_host_without_engines(capsys: pytest.CaptureFixture[str], run_dir: Path) -> None:
    assert main(["doctor", "--proc", str(run_dir / "none"), "--run-dir", str(run_dir)]) == 2
    assert "none; name where the host's /proc is" in capsys.readouterr().err


def test_off_and_on_again(capsys: pytest.CaptureFixture[str], proc: Path, run_dir: Path, start: Start) -> None:
    writer = start("p0", titled)
    writer.tell("write 20")
    shown(proc, writer)
    for verb, code, state in (("off", 1, "off"), ("on", 0, "instrumented")):
        assert main([verb, "p0", "--run-dir", str(run_dir)]) == 0
        assert capsys.readouterr().out.startswith("p0 ")
        answer, found = doctor(capsys, proc, run_dir)
        assert (answer, found["processes"][0]["state"]) == (code, state)


def test_a_reason_that_the_process_noted(
    capsys: pytest.CaptureFixture[str], proc: Path, run_dir: Path, start: Start
) -> None:
    writer = start("p0", titled)
    writer.tell("note vLLM 9 is not supported: scheduler.py has SHA-256 ab")
    shown(proc, writer)
    code, found = doctor(capsys, proc, run_dir)
    finding = found["processes"][0]["findings"][0]
    assert code == 1
    assert "scheduler.py has SHA-256 ab" in finding["what"]
    assert "kvscope patch status" in finding["do"]


def test_excluded_by_vllm_plugins_and_by_kvscope_off(
    capsys: pytest.CaptureFixture[str], proc: Path, run_dir: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_PLUGINS", "other")
    shown(proc, start("p0", titled))
    monkeypatch.setenv("KVSCOPE", "off")
    shown(proc, start("p1", titled))
    code, found = doctor(capsys, proc, run_dir)
    said = sorted(each["findings"][0]["what"] for each in found["processes"])
    assert code == 1
    assert said[0].startswith("KVSCOPE=off")
    assert said[1].startswith("VLLM_PLUGINS=other")


SERVER = """
import socket
bound = socket.socket()
bound.bind(("127.0.0.1", 0))
print("ready", flush=True)
input()
bound.listen()
print("listens", flush=True)
input()
"""


def test_a_server_that_does_not_listen_yet_is_starting(
    capsys: pytest.CaptureFixture[str], proc: Path, run_dir: Path, start: Start
) -> None:
    def server(engine: str) -> Recording:
        return Recording(engine, ["VLLM::APIServer", "-c", SERVER, "--kv-transfer-config"])

    writer = start("p0", server)
    shown(proc, writer)
    code, found = doctor(capsys, proc, run_dir)
    (process,) = found["processes"]
    assert (code, process["state"], process["good"]) == (1, "starting", False)
    assert main(["doctor", "--proc", str(proc), "--run-dir", str(run_dir)]) == 1
    assert "as it should be: 0 of 1 vLLM process; still starting: 1" in capsys.readouterr().out
    assert writer.tell("go on") == "listens"
    code, found = doctor(capsys, proc, run_dir)
    (process,) = found["processes"]
    assert (code, process["state"]) == (1, "not instrumented")
    assert "left no trace" in process["findings"][0]["what"]


def test_another_layout_version_is_named(
    capsys: pytest.CaptureFixture[str], proc: Path, run_dir: Path, start: Start
) -> None:
    writer = start("p0", titled)
    writer.tell("write 20")
    shown(proc, writer)
    (path,) = run_dir.glob("*.ring")
    with open(path, "r+b") as file:
        file.seek(8)
        file.write((99).to_bytes(8, sys.byteorder))
    code, found = doctor(capsys, proc, run_dir)
    assert code == 1
    assert "layout version 99" in found["processes"][0]["findings"][0]["what"]


def test_rings_of_its_own_run_directory_are_found(
    capsys: pytest.CaptureFixture[str], proc: Path, run_dir: Path, start: Start
) -> None:
    writer = start("p0", titled)
    writer.tell("write 20")
    shown(proc, writer)
    code, found = doctor(capsys, proc, run_dir / "elsewhere")
    assert (code, found["processes"][0]["engine"]) == (0, "p0")


def test_a_ring_whose_process_is_out_of_sight(
    capsys: pytest.CaptureFixture[str], proc: Path, run_dir: Path, start: Start
) -> None:
    start("p0").tell("write 20")
    gone = start("gone")
    gone.tell("write 1")
    gone.kill()
    code, found = doctor(capsys, proc, run_dir)
    assert (code, found["host"]["dead_rings"]) == (0, 1)
    assert [each["engine"] for each in found["processes"]] == ["p0"]


def test_rings_that_lie_elsewhere_are_not_said_to_be_here(
    capsys: pytest.CaptureFixture[str], proc: Path, run_dir: Path, tmp_path: Path, start: Start
) -> None:
    gone = start("gone", titled)
    gone.tell("write 1")
    gone.kill()
    writer = start("p0", titled)
    writer.tell("write 20")
    shown(proc, writer)
    empty = tmp_path / "empty"
    empty.mkdir()
    _, found = doctor(capsys, proc, empty)
    assert found["host"]["dead_rings"] == 0
    assert [each["run_dir"]["path"] for each in found["processes"]] == [str(run_dir)]
    assert main(["doctor", "--proc", str(proc), "--run-dir", str(empty)]) == 0
    told = capsys.readouterr().out
    assert "left rings there" not in told
    assert f"looked for rings in {empty}" in told
    assert f"rings in {run_dir}: " in told
    _, found = doctor(capsys, proc, run_dir)
    assert (found["host"]["dead_rings"], found["host"]["remark"]) == (1, "")


def test_doctor_top_record_and_serve_say_in_the_same_words_where_nobody_records(
    capsys: pytest.CaptureFixture[str], proc: Path, run_dir: Path, tmp_path: Path, start: Start
) -> None:
    start("p0").tell("write 20")
    empty = ["--run-dir", str(run_dir / "empty")]
    words = none_in(run_dir / "empty")
    assert str(run_dir) in words
    assert main(["doctor", "--proc", str(proc), *empty]) == 3
    assert main(["record", "-o", str(tmp_path / "a"), "--for", "1ms", *empty]) == 3
    said = capsys.readouterr().err
    assert said.count(words.partition(";")[0]) == 3
    assert "nothing was recorded" in said
    assert "next: " not in said
    assert main(["report", *empty]) == main(["request", "x", *empty]) == 3
    assert main(["top", "--once", *empty]) == 3
    assert words in " ".join(capsys.readouterr().out.split())


def test_who_is_dead_does_not_record_elsewhere(run_dir: Path, start: Start) -> None:
    beside = run_dir.with_name(f"{run_dir.name}-beside")
    gone = start("gone")
    gone.tell("write 1")
    assert run_dir in elsewhere(beside)
    gone.kill()
    assert run_dir not in elsewhere(beside)
    assert elsewhere(run_dir).count(run_dir) == 0


def test_a_pipe_in_a_recorded_proc_is_not_waited_for(
    capsys: pytest.CaptureFixture[str], proc: Path, run_dir: Path
) -> None:
    (proc / "1").mkdir()
    os.mkfifo(proc / "1" / "cmdline")
    assert doctor(capsys, proc, run_dir)[0] == 3


def test_the_environment_is_not_shown(
    capsys: pytest.CaptureFixture[str], proc: Path, run_dir: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", "hunter2-" + str(os.getpid()))
    shown(proc, start("p0", titled))
    main(["doctor", "--json", "--proc", str(proc), "--run-dir", str(run_dir)])
    assert "hunter2" not in capsys.readouterr().out


def test_the_verbs_on_rings_need_nothing_installed(run_dir: Path, start: Start, tmp_path: Path) -> None:
    start("p0").tell("write 20")
    root = Path(__file__).parents[3]
    for words, code, said in (
        (["rings"], 0, "p0"),
        (["off"], 0, "off"),
        (["on", "p0"], 0, "on"),
        (["on", "p9"], 3, ""),
        (["doctor", "--proc", str(tmp_path)], 0, "p0"),
        (["record", "-o", str(tmp_path / "a"), "--for", "1ms"], 0, ""),
    ):
        run = f"import sys; sys.path.insert(0, {str(root)!r}); from kvscope.cli import main; sys.exit(main({words!r}))"
        ran = subprocess.run([sys.executable, "-I", "-S", "-c", run], capture_output=True, text=True, check=False)
        # -I ignores no environment of ours: KVSCOPE_RUN_DIR is read by kvscope, not by Python.
        assert ran.returncode == code, ran.stderr
        assert said in ran.stdout

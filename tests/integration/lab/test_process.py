"""Processes started for real: their last words, and that nothing of them is left."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvscope.lab import pair
from kvscope.lab.errors import LabError
from kvscope.lab.process import Process, Session, run_logged, stop_all
from kvscope.lab.progress import Plain
from kvscope.model.errors import InputError

# A parent that ignores SIGTERM, with a child in a process group of its own that does too.
STUBBORN = """\
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import signal, time\\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\\nprint('child', flush=True)\\ntime.sleep(600)"], process_group=0)
print("ready", flush=True)
time.sleep(600)
"""
# Ends on SIGTERM, and leaves a child behind.
CARELESS = """\
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; print('child', flush=True); time.sleep(600)"])
print("ready", flush=True)
time.sleep(600)
"""


def python(name: str, code: str, folder: Path) -> Process:
    return Process(name, [sys.executable, "-c", code], folder / f"{name}.log")


def started(process: Process) -> Process:
    process.start()
    process.wait_for(lambda: {"ready", "child"} <= set(process.lines()), 30)
    return process


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_command_that_dies_tells_its_last_error_lines(tmp_path: Path) -> None:
    code = (
        "import sys\nfor i in range(100): print('noise', i)\nprint('ERROR the cause')\nfor i in range(50): print(i)\n"
    )
    process = python("engine", code + "raise ValueError('and the end')", tmp_path)
    process.start()
    with pytest.raises(LabError) as told:
        process.wait_for(lambda: False, 30)
    text = str(told.value)
    assert text.startswith("engine ended with code 1")
    assert "ERROR the cause" in text
    assert "ValueError: and the end" in text
    assert "noise" not in text
    assert str(process.log) in text


def test_a_command_that_never_gets_ready_says_so_and_stops(tmp_path: Path) -> None:
    process = started(python("engine", CARELESS, tmp_path))
    with pytest.raises(LabError, match="was not ready after 0 s"):
        process.wait_for(lambda: False, 0)
    process.stop()


def test_a_command_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"engine cannot be started: .*nowhere"):
        Process("engine", [str(tmp_path / "nowhere")], tmp_path / "log").start()


def test_a_child_left_behind_is_found_and_ended(tmp_path: Path) -> None:
    process = started(python("careless", CARELESS, tmp_path))
    pids = process.members()
    assert len(pids) == 2
    process.stop()
    assert all(map(gone, pids))
    process.stop()


def test_who_does_not_listen_is_killed_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvscope.lab.process.GRACE_S", 0.5)
    processes = [started(python(name, STUBBORN, tmp_path)) for name in ("one", "two")]
    pids = [pid for process in processes for pid in process.members()]
    assert len(pids) == 4
    stop_all(processes)
    assert all(map(gone, pids))


def test_stopping_what_never_started_is_fine(tmp_path: Path) -> None:
    python("never", "", tmp_path).stop()


def test_a_failed_set_up_step_tells_its_last_lines(tmp_path: Path) -> None:
    heard: list[str] = []
    with pytest.raises(LabError, match=r"pip failed(.|\n)*ERROR: no such package"):
        run_logged("pip", ["sh", "-c", "echo ERROR: no such package; exit 3"], tmp_path / "log", heard.append)


def test_a_pair_left_behind_by_a_killed_command_can_be_stopped(tmp_path: Path) -> None:
    code = f"""\
import json
from dataclasses import asdict
from pathlib import Path
from kvscope.lab.process import Process
process = Process("p0", ["sleep", "600"], Path({str(tmp_path / "p0.log")!r}))
process.start()
state = {{"run_dir": {str(tmp_path / "rings")!r}, "url": "", "sessions": [asdict(process.session)]}}
Path({str(tmp_path / "pair.json")!r}).write_text(json.dumps(state))
print(process.session.pid, flush=True)
"""
    pid = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert not gone(pid)
    assert pair.stop(tmp_path) == ["p0"]
    assert gone(pid)
    with pytest.raises(InputError, match="no pair is up"):
        pair.stop(tmp_path)


SESSION = '{"name": "p0", "pid": 1, "start_ticks": 1}'
STATES = [
    "[]",
    "5",
    "{",
    "[" * 100_000,
    '{"sessions": []}',
    '{"run_dir": 5, "sessions": []}',
    '{"run_dir": "/nowhere", "sessions": 5}',
    '{"run_dir": "/nowhere", "sessions": [{"name": "p0"}]}',
    f'{{"run_dir": "/nowhere", "sessions": [{SESSION.replace("1", "null", 1)}]}}',
    f'{{"run_dir": "/nowhere", "sessions": [{SESSION.replace("1", "true", 1)}]}}',
]


@pytest.mark.parametrize("text", STATES, ids=range(len(STATES)))
def test_what_is_no_record_of_a_pair_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / pair.STATE).write_text(text)
    with pytest.raises(LabError, match=rf"^{tmp_path}/{pair.STATE} cannot be read: [^\n]+$"):
        pair.stop(tmp_path)


def test_a_pipe_in_its_place_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / pair.STATE)
    with pytest.raises(OSError, match="not a regular file"):
        pair.stop(tmp_path)


# `kvscope lab run` with an interpreter that passes for one with vLLM, and whose engines never get ready.
FAKE_VLLM = """\
#!/bin/sh
case "$1" in
-c) echo '{"vllm": "0.32.0", "nixl": "1.5.1"}' ;;
*) echo "engine $$ up"; sleep 600 & sleep 600 ;;
esac
"""


# The same, with engines that are healthy and never answer a request.
HEALTHY = """\
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def do_POST(self):
        print("asked", flush=True)
        Event().wait()
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
"""


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT as a terminal's foreground has it: a shell's background jobs ignore it, and so would what they start."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_load_that_is_interrupted_leaves_nothing(tmp_path: Path, number: int, code: int) -> None:
    (tmp_path / "server.py").write_text(HEALTHY)
    fake = tmp_path / "python"
    fake.write_text(
        FAKE_VLLM.replace(
            'echo "engine $$ up"; sleep 600 & sleep 600', f'exec {sys.executable} {tmp_path}/server.py "$@"'
        )
    )
    fake.chmod(0o755)
    folder = tmp_path / "out"
    ours = lab_run(fake, folder, tmp_path)
    ours.start()
    try:
        log = folder / "p0.log"
        ours.wait_for(lambda: log.exists() and "asked" in log.read_text(), 60)
        sessions = [Session(**told) for told in json.loads((folder / pair.STATE).read_text())["sessions"]]
        assert [session.name for session in sessions if session.members()] == ["p0", "d0", "the router"]
        assert ours.session is not None
        os.kill(ours.session.pid, number)
        assert ours.wait() == code, ours.lines()
        assert not [session.name for session in sessions if session.members()]
    finally:
        ours.stop()


def lab_run(python: Path, folder: Path, home: Path) -> Process:
    """`kvscope lab run`, not yet started."""
    command = [sys.executable, "-m", "kvscope", "lab", "run", "--stock", "--python", str(python), "-o", str(folder)]
    env = os.environ | {"KVSCOPE_LAB_HOME": str(home / "home")}
    return Process("kvscope", command, home / "kvscope.log", env)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_run_that_is_interrupted_leaves_nothing(tmp_path: Path, number: int, code: int) -> None:
    fake = tmp_path / "python"
    fake.write_text(FAKE_VLLM)
    fake.chmod(0o755)
    folder = tmp_path / "out"
    ours = lab_run(fake, folder, tmp_path)
    ours.start()
    try:
        engines = engines_of(ours, folder)
        assert ours.session is not None
        os.kill(ours.session.pid, number)
        assert ours.wait() == code, ours.lines()
        assert all(map(gone, engines))
        assert not (folder / pair.STATE).exists()
    finally:
        ours.stop()


def test_a_set_up_that_fails_leaves_no_folder(tmp_path: Path) -> None:
    options = pair.PairOptions(python=tmp_path / "nowhere")
    with pytest.raises(InputError, match="nowhere"), pair.Pair(options, tmp_path / "out"):
        pytest.fail("it must not come up")
    assert list(tmp_path.iterdir()) == []


class OneProcess(pair.Pair):
    """A pair whose engines are one process that would run for minutes."""

    def _start(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self._run(python("p0", "import time; time.sleep(600)", self.folder))
        (self.process,) = self._processes


def test_a_terminal_that_is_gone_keeps_no_engine_up(tmp_path: Path) -> None:
    stream = io.StringIO()
    up = OneProcess(pair.PairOptions(), tmp_path, Plain(stream))
    with pytest.raises(ValueError, match="closed file"), up:
        stream.close()
    assert up.process.members() == []
    assert not up.run_dir.exists()


def engines_of(ours: Process, folder: Path) -> list[int]:
    """Pids of both engines, once both are up."""
    logs = [folder / "p0.log", folder / "d0.log"]
    ours.wait_for(lambda: all(log.exists() and "up\n" in log.read_text() for log in logs), 60)
    return [int(log.read_text().split()[1]) for log in logs]


def test_an_engine_that_dies_ends_the_run_with_its_last_lines_and_the_other_engine(tmp_path: Path) -> None:
    fake = tmp_path / "python"
    death = (
        'case "$*" in *kv_producer*) echo "RuntimeError: no room"; exit 1;; esac; echo "engine $$ up"; exec sleep 600'
    )
    fake.write_text(FAKE_VLLM.replace('echo "engine $$ up"; sleep 600 & sleep 600', death))
    fake.chmod(0o755)
    options = pair.PairOptions(stock=True, python=fake)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KVSCOPE_LAB_HOME", str(tmp_path / "home"))
        under = pair.Pair(options, tmp_path / "out")
        with pytest.raises(LabError, match=r"p0 ended with code 1\n  RuntimeError: no room"), under:
            pytest.fail("it must not come up")
    assert not any(engine.process.members() for engine in under.engines)
    assert not under.run_dir.exists()

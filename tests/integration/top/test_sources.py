"""Whatever it is pointed at, it shows what is there, or says in a sentence what is not and what to do. No traceback."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kvscope.cli import main
from kvscope.cli.top import SETTLE_S
from kvscope.lab.ports import free_ports
from kvscope.probe import layout
from kvscope.probe.reader import list_rings
from kvscope.sources.past import Past, open_past
from tests.lab.terminal import flat, needs_tmux

from ..sources.conftest import Start
from .conftest import PICTURES, OnScreen, Piped, code, idle

pytestmark = needs_tmux

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")


@pytest.mark.parametrize("name", ["", "not-made-yet"])
def test_no_engine(on_screen: OnScreen, piped: Piped, run_dir: Path, name: str) -> None:
    words = ("--run-dir", str(run_dir / name))
    told = ("No instrumented engine", "kvscope doctor", "kvscope lab run", "appears here within a second")
    on_screen(*words).until_shown(*told, "P 0/0 D 0/0", "? keys")
    done = piped(*words, "--once")
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert done.stderr.startswith("kvscope: no engine records in ")
    assert "`kvscope doctor` says what keeps one from it" in done.stderr
    assert all(word in flat(done.stdout) for word in told)


def test_an_engine_that_comes_later_appears(on_screen: OnScreen, start: Start, run_dir: Path) -> None:
    terminal = on_screen("--run-dir", str(run_dir))
    terminal.until_shown("No instrumented engine")
    start("p0", idle)
    told = ("NO REQUEST so far: 1 engine records, nothing was asked of it yet.", "`kvscope doctor` tells which engines")
    terminal.until_shown(*told)
    terminal.keys("2")
    terminal.until_shown("ENGINES 1", "No request in this time: the role of an engine is what its requests show")


def test_traffic_then_an_engine_that_stands_still_and_dies(
    on_screen: OnScreen, writing: subprocess.Popen[bytes], run_dir: Path
) -> None:
    terminal = on_screen("--run-dir", str(run_dir))
    terminal.until_shown("leads TTFT", "P 1/1 D 1/1", "DATA good", "Decode is called without waiting for prefill.")
    (decode,) = (ring for ring in list_rings(run_dir) if ring.engine == "d0")
    os.kill(decode.header.pid, signal.SIGSTOP)
    terminal.until_shown("d0 silent, though it had work", "D 0/1", patience_s=40)
    terminal.keys("2")
    terminal.until_shown("gone: d0: no event for")
    os.kill(decode.header.pid, signal.SIGKILL)
    terminal.keys("1")
    terminal.until_shown("d0 ended", "D 0/1")
    terminal.keys("q")
    assert code(terminal.until_shown("ended with")) == 0


def newer(run_dir: Path) -> None:
    """The ring of a process with a kvscope that is to come."""
    head = struct.pack("=QQ", layout.MAGIC, layout.VERSION + 1)
    (run_dir / "1-2-newer.ring").write_bytes(head.ljust(1 << 16, b"\1"))


def test_a_newer_layout_alone_and_beside_what_can_be_read(
    on_screen: OnScreen, start: Start, run_dir: Path, piped: Piped
) -> None:
    newer(run_dir)
    told = f"1-2-newer.ring: layout version {layout.VERSION + 1}, this reader knows {layout.VERSION}; use the kvscope"
    terminal = on_screen("--run-dir", str(run_dir))
    terminal.until_shown(told, "No instrumented engine")
    start("p0", idle)
    terminal.until_shown(told.partition(": ")[2], "NO REQUEST so far", "DATA impaired")
    assert told in flat(piped("--run-dir", str(run_dir), "--once", "--width", "200").stdout)


# Imports first: another user may not be able to read this Python.
AS_NOBODY = f"""
import importlib, os, pkgutil, sys
import kvscope
for each in pkgutil.walk_packages(kvscope.__path__, "kvscope."):
    if each.name.split(".")[1] not in ("lab", "vllm", "__main__"):
        importlib.import_module(each.name)
from kvscope.cli import main
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
sys.exit(main(["top", *sys.argv[1:]]))
"""


@needs_root
@pytest.mark.parametrize(
    ("owner", "above", "told"),
    [
        (0, 0o755, "belongs to another user (uid 0): run as that user, or start its engines with KVSCOPE_GROUP"),
        (NOBODY, 0o755, "is closed to its own user; open it: chmod u+rwx "),
        (NOBODY, 0o700, "cannot be reached: a folder above it belongs to another user; run as that user"),
    ],
)
def test_a_run_directory_that_this_user_may_not_read(
    piped: Piped, run_dir: Path, owner: int, above: int, told: str
) -> None:
    rings = run_dir / "rings"
    rings.mkdir(mode=0)
    run_dir.chmod(above)
    os.chown(rings, owner, owner)
    done = piped("--run-dir", str(rings), "--once", command=(sys.executable, "-c", AS_NOBODY))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"kvscope: {rings} {told}" in done.stderr


def test_what_is_no_run_directory(piped: Piped, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = piped("--run-dir", str(tmp_path / "file"))
    assert (done.returncode, done.stderr) == (2, f"kvscope: {tmp_path / 'file'} is not a directory\n")


def recordings(folder: Path) -> None:
    (folder / "empty.kvs").touch()
    whole = (PICTURES / "push-early.kvs").read_bytes()
    (folder / "begun.kvs").write_bytes(whole[:20])
    (folder / "other.kvs").write_bytes(bytes(range(256)) * 64)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("missing.kvs", "there is no missing.kvs; name a recording or JSON lines"),
        ("empty.kvs", "empty.kvs is empty; name a recording (`kvscope record -o FILE` makes one) or JSON lines"),
        ("begun.kvs", "begun.kvs ends before its first block of events does"),
        ("other.kvs", "other.kvs"),
    ],
)
def test_a_replay_of_what_is_no_recording(
    on_screen: OnScreen, piped: Piped, tmp_path: Path, name: str, told: str
) -> None:
    recordings(tmp_path)
    terminal = on_screen("--replay", name)
    shown = terminal.until_shown("ended with 2", f"kvscope: {told}")
    assert "Traceback" not in shown
    assert terminal.told("alternate_on") == "0"
    done = piped("--replay", name, "--once")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_a_replay_of_a_recording_that_was_cut(on_screen: OnScreen, tmp_path: Path) -> None:
    whole = (PICTURES / "push-early.kvs").read_bytes()
    (tmp_path / "cut.kvs").write_bytes(whole[: len(whole) * 2 // 3])
    terminal = on_screen("--replay", "cut.kvs", "--at", "1h")
    terminal.until_shown("REPLAY ENDED", "cut.kvs was not ended", "leads TTFT")


def test_a_page_of_a_recording_waits_until_that_was_gone_through(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def slowly(*words: Any) -> Past:
        threading.Event().wait(2 * SETTLE_S)  # it takes longer than the two looks
        return open_past(*words)

    monkeypatch.setattr("kvscope.live.replay.open_past", slowly)
    assert main(["top", "--replay", str(PICTURES / "push-early.kvs"), "--once"]) == 0
    assert "leads TTFT" in capsys.readouterr().out


def test_one_page_of_a_recording_is_of_the_instant_that_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    pages = set()
    for _ in range(2):
        assert main(["top", "--replay", str(PICTURES / "push-early.kvs"), "--at", "8s", "--once"]) == 0
        pages.add(capsys.readouterr().out)
    (page,) = pages
    assert "PAUSED" in page
    assert "win 8/60 s" in page


def test_requests_that_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    recording = str(PICTURES / "push-early.kvs")
    assert main(["top", "--replay", recording, "--once", "--without", "a8558a54"]) == 0
    page = capsys.readouterr().out
    assert "complete 100% of 62 " in page
    assert main(["report", recording, "--without", "a8558a54", "--plain"]) == 0
    headline = next(line for line in capsys.readouterr().out.split("\n") if line.startswith(">>"))
    assert flat(headline).removesuffix(".") in flat(page)


@pytest.mark.parametrize("words", [("--once",), ("--plain",), ()])
def test_one_that_takes_a_connection_and_says_nothing(piped: Piped, words: tuple[str, ...]) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        done = piped("--connect", address, *words)
    told = f"kvscope: {address} does not answer; is that the port of `kvscope serve`?\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", told)


@pytest.mark.parametrize("option", ["--connect", "--replay", "--run-dir", "--slo"])
def test_an_empty_word_is_no_choice(piped: Piped, option: str) -> None:
    done = piped("--once", option, "")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("words", [("--once",), ()])
def test_nothing_listens(on_screen: OnScreen, piped: Piped, words: tuple[str, ...]) -> None:
    (port,) = free_ports(1)
    told = f"kvscope: nothing listens at 127.0.0.1:{port}; start `kvscope serve` there"
    shown = on_screen("--connect", f"127.0.0.1:{port}", *words).until_shown("ended with 2")
    assert told in flat(shown)
    assert "Traceback" not in shown

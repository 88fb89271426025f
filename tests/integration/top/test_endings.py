"""However it ends, the terminal is as it was, and the exit code says how."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from tests.lab.terminal import Terminal, needs_tmux, until

from ..sources.conftest import ROOT
from .conftest import PICTURES, TOP, OnScreen, code

pytestmark = needs_tmux

SUM = re.compile(r"^\d+ \d+$", re.M)
"""Of what the terminal is set to."""


def restored(terminal: Terminal) -> int:
    """Check that nothing of it is left on the terminal; returns the exit code."""
    shown = terminal.until(lambda text: "ended with" in text and len(SUM.findall(text)) == 2)
    flags = {name: terminal.told(name) for name in ("alternate_on", "cursor_flag", "mouse_any_flag")}
    assert flags == {"alternate_on": "0", "cursor_flag": "1", "mouse_any_flag": "0"}
    assert len(set(SUM.findall(shown))) == 1, "the line discipline, before and after"
    assert "Traceback" not in shown
    return code(shown)


def child(pid: int) -> int:
    """The one process that a process has started."""
    (found,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(found)


def up(on_screen: OnScreen, run_dir: Path) -> Terminal:
    terminal = on_screen("--run-dir", str(run_dir))
    terminal.until_shown("No instrumented engine")
    assert terminal.told("alternate_on") == "1"
    return terminal


@pytest.mark.parametrize("keys", [("q",), ("C-c",), ("4", "slash", "C-c"), ("question_mark", "C-c")], ids=" ".join)
def test_by_a_key(on_screen: OnScreen, run_dir: Path, keys: tuple[str, ...]) -> None:
    terminal = up(on_screen, run_dir)
    terminal.keys(*({"slash": "/", "question_mark": "?"}.get(key, key) for key in keys))
    assert restored(terminal) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_by_a_signal(on_screen: OnScreen, run_dir: Path, number: signal.Signals) -> None:
    terminal = up(on_screen, run_dir)
    os.kill(child(int(terminal.told("pane_pid"))), number)
    assert restored(terminal) == 128 + number


def test_by_the_end_of_the_terminal(run_dir: Path, tmp_path: Path) -> None:
    said = tmp_path / "said"
    command = ["sh", "-c", f'exec "$@" 2>{said}', "sh", *TOP, "--run-dir", str(run_dir)]
    with Terminal(command, env={"PYTHONPATH": str(ROOT)}) as terminal:
        terminal.until_shown("No instrumented engine")
        pid = int(terminal.told("pane_pid"))
    until(lambda: not Path(f"/proc/{pid}").exists(), "it goes on without a terminal")
    assert said.read_text() == ""


def test_stopped_it_gives_the_terminal_back_and_takes_it_again(run_dir: Path) -> None:
    """By a shell that has jobs."""
    words = " ".join((*TOP, "--run-dir", str(run_dir)))
    with Terminal(["bash", "--norc", "--noprofile", "-i"], env={"PYTHONPATH": str(ROOT)}) as terminal:
        terminal.keys("stty -g | cksum", "Enter", words, "Enter")
        for _ in range(2):
            terminal.until_shown("No instrumented engine", "? keys")
            assert terminal.told("alternate_on") == "1"
            terminal.keys("C-z")
            terminal.until_shown("Stopped")
            assert terminal.told("alternate_on") == "0"
            terminal.keys("fg", "Enter")
        terminal.until_shown("No instrumented engine", "? keys")
        terminal.keys("2")
        terminal.until_shown("ENGINES")
        terminal.keys("C-z")
        terminal.until_shown("Stopped")
        terminal.keys("stty -g | cksum; echo ended with 0:", "Enter")
        assert restored(terminal) == 0
        terminal.keys("clear; kill %1; fg; echo ended with $?:; stty -g | cksum; stty -g | cksum", "Enter")
        assert restored(terminal) == 128 + signal.SIGTERM


def test_while_a_recording_plays(on_screen: OnScreen) -> None:
    terminal = on_screen("--replay", str(PICTURES / "push-early.kvs"))
    terminal.until_shown("REPLAY")
    terminal.keys("q")
    assert restored(terminal) == 0

"""Ctrl-C on a terminal: what was being waited for is gone from it, and not said to be done; the cursor is back."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.lab.terminal import Terminal, flat, needs_tmux

from ..sources.conftest import ROOT
from .test_process import FAKE_VLLM, HEALTHY

pytestmark = needs_tmux

SHELL = 'trap : INT; "$@"; echo "ended with $?:"; exec sleep 1000'


@pytest.mark.parametrize(
    ("healthy", "phase"), [(False, "start 2 vLLM engines"), (True, "warm up with 3 requests")], ids=["start", "load"]
)
def test_ctrl_c_takes_the_live_line_away(tmp_path: Path, healthy: bool, phase: str) -> None:
    (tmp_path / "server.py").write_text(HEALTHY)
    serving = f'exec {sys.executable} {tmp_path}/server.py "$@"'
    fake = tmp_path / "python"
    waiting = 'echo "engine $$ up"; sleep 600 & sleep 600'
    fake.write_text(FAKE_VLLM.replace(waiting, serving) if healthy else FAKE_VLLM)
    fake.chmod(0o755)
    words = [sys.executable, "-m", "kvscope", "lab", "run", "--stock", "--python", str(fake), "-o", "out"]
    env = {"PYTHONPATH": str(ROOT), "KVSCOPE_LAB_HOME": str(tmp_path / "home")}
    with Terminal(["sh", "-c", SHELL, "sh", *words], (100, 30), env, tmp_path) as terminal:
        terminal.until_shown(phase, patience_s=60)
        terminal.keys("C-c")
        text = flat(terminal.until_shown("ended with 130:", patience_s=60))
        assert phase not in text
        assert "kvscope: interrupted" in text
        assert terminal.told("cursor_flag") == "1"

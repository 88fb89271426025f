"""The command that is told to be typed next is one that works where this one did."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RECORD = ["record", "-o", "a.kvs", "--for", "0s"]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """What pip makes of the entry point, in a folder of its own."""
    path = tmp_path / "a venv" / "bin" / "kvscope"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!{sys.executable}\nimport sys\nfrom kvscope.cli import main\nsys.exit(main())\n")
    path.chmod(0o755)
    return path


def following(command: list[str], folder: Path, search: str) -> str:
    """What it says comes next."""
    env = {**os.environ, "PATH": search, "PYTHONPATH": str(ROOT), "KVSCOPE_RUN_DIR": str(folder / "rings")}
    there = [sys.executable, str(ROOT / "tests" / "scripts" / "recording_process.py"), "p0"]
    with subprocess.Popen(there, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as engine:
        assert engine.stdin is not None
        assert engine.stdout is not None
        engine.stdin.write("write 1\n")
        engine.stdin.flush()
        assert engine.stdout.readline().strip() == "ready"
        engine.stdout.readline()  # its answer: all is written
        ran = subprocess.run([*command, *RECORD], cwd=folder, env=env, capture_output=True, text=True, check=True)
        engine.communicate()
    return ran.stderr.strip().rpartition("next: ")[2]


def test_where_path_leads_to_it_by_name(script: Path, tmp_path: Path) -> None:
    assert following(["kvscope"], tmp_path, f"{script.parent}:{os.defpath}") == "kvscope report a.kvs"


@pytest.mark.parametrize("search", [os.defpath, "other"])
def test_elsewhere_as_it_was_called(script: Path, tmp_path: Path, search: str) -> None:
    other = tmp_path / "other" / "kvscope"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    search = search.replace("other", f"{other.parent}:{os.defpath}")
    called = str(script.relative_to(tmp_path))
    assert following([called], tmp_path, search) == f"{shlex.quote(called)} report a.kvs"


def test_as_a_module(tmp_path: Path) -> None:
    told = following([sys.executable, "-m", "kvscope"], tmp_path, os.defpath)
    assert told == f"{shlex.quote(sys.executable)} -m kvscope report a.kvs"

"""What kvscope writes where it is started is nothing that git asks to be committed."""

from __future__ import annotations

import shutil
import subprocess
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from kvscope.analysis.render.looks import Looks
from kvscope.lab.run import new_folder
from kvscope.live.kept import Kept
from kvscope.sources.records import RECORD
from kvscope.top.exporting import export
from kvscope.top.pages.overview import put_overview

from ..unit.top.states import early
from .tree import ROOT


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_what_top_and_the_lab_leave_is_ignored(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    shutil.copy(ROOT / ".gitignore", tmp_path)
    snapshot, page = early(), Looks(ascii_only=True, colour=False).page(100)
    put_overview(page, snapshot)
    export(page, snapshot, "overview", tmp_path)
    kept = Kept()
    kept.add(0, np.zeros(1, RECORD), [])
    kept.save(tmp_path, {0: {"pid": 1}})
    folder = tmp_path / new_folder(datetime.now())
    folder.mkdir()
    (folder / "run.kvs").touch()
    told = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=True).stdout
    assert told == "?? .gitignore\n"

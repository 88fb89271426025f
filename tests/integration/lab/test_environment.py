"""The lab's own environment, made from a package of the test's own; and the overlay for the engines."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kvscope.lab import environment, overlay
from kvscope.lab.errors import LabError
from kvscope.lab.progress import Silent
from kvscope.model.errors import InputError


@pytest.fixture
def wheel(tmp_path: Path) -> str:
    """A package that needs no index and no build."""
    path = tmp_path / "tiny-1.0-py3-none-any.whl"
    info = "tiny-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny.py", "SIZE = 1\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", f"tiny.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return str(path)


@pytest.mark.slow
def test_an_environment_is_made_whole_and_one_that_was_cut_is_made_anew(tmp_path: Path, wheel: str) -> None:
    folder = tmp_path / "venv"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").write_text("what a cut set-up left")
    environment.make(folder, (wheel,), ("surely-not-there",), 0, Silent())
    assert (folder / "ready.json").exists()
    subprocess.run([folder / "bin" / "python", "-c", "import tiny"], check=True)


@pytest.mark.slow
def test_a_package_that_cannot_be_had_is_told_with_pip_s_last_words(tmp_path: Path) -> None:
    folder = tmp_path / "venv"
    with pytest.raises(LabError, match=r"pip install failed(.|\n)*nowhere\.whl(.|\n)*venv\.log"):
        environment.make(folder, (str(tmp_path / "nowhere.whl"),), (), 0, Silent())
    assert not (folder / "ready.json").exists()


def test_too_small_a_disk_is_said_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"GB free .* KVSCOPE_LAB_HOME"):
        environment.make(tmp_path / "venv", (), (), 1 << 60, Silent())
    assert not (tmp_path / "venv").exists()


def test_a_missing_system_library_is_said_with_what_brings_it() -> None:
    environment.check_library("libc.so.6")
    with pytest.raises(LabError, match=r"vLLM needs a library: libnowhere\.so\.1: .* apt-get install libnuma1"):
        environment.check_library("libnowhere.so.1")


def test_an_interpreter_without_vllm_says_what_it_lacks() -> None:
    with pytest.raises(InputError, match=f"{sys.executable} has no vllm and no nixl"):
        environment.examined(Path(sys.executable))


@pytest.mark.parametrize("text", [None, "#!/bin/sh\nexit 1\n"])
def test_what_is_no_interpreter_is_refused(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "python"
    if text is not None:
        path.write_text(text)
        path.chmod(0o755)
    with pytest.raises(InputError, match="not a working Python"):
        environment.examined(path)


def test_the_overlay_declares_the_plugin_to_a_stock_interpreter_and_brings_the_patches(tmp_path: Path) -> None:
    folder = overlay.made(tmp_path)
    ask = (
        "import importlib.metadata as m; [e] = m.entry_points(group='vllm.general_plugins', name='kvscope');"
        "import kvscope.vllm.patchset as p; e.load(); print(p.folder(), p.folder().is_dir())"
    )
    bare = [sys.executable, "-S", "-P", "-c", ask]  # without site-packages and the current folder, which have kvscope
    told = subprocess.run(bare, env={"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=True).stdout
    place, there = told.split()
    assert Path(place).is_relative_to(folder)
    assert there == "True"


def test_the_overlay_is_kept_until_a_file_changes(tmp_path: Path) -> None:
    assert overlay.made(tmp_path) == overlay.made(tmp_path)
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.py").write_text("1")
    before = overlay.fingerprint([source])
    (source / "a.py").write_text("12")
    assert overlay.fingerprint([source]) != before

"""A folder of patches that somebody else filled: what is wrong with it is said, by file, in one sentence."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kvscope.cli import main
from kvscope.vllm import patchset

from .conftest import ROOT

Harm = Callable[[Path], object]
SHA = "0" * 64


def table(text: bytes) -> Harm:
    return lambda folder: (folder / patchset.SUPPORT).write_bytes(text)


def a_patch(folder: Path) -> Path:
    return next(folder.rglob("core/*.patch"))


def patch(text: bytes) -> Harm:
    return lambda folder: a_patch(folder).write_bytes(text)


def edited(old: str, new: str) -> Harm:
    def harm(folder: Path) -> None:
        text = a_patch(folder).read_text()
        assert old in text
        a_patch(folder).write_text(text.replace(old, new))

    return harm


TABLES = {
    "no TOML": b"releases:\n  - 1.0.0\n",
    "no text": b'["1.0.0"]\n"vllm/a.py" = "\xff"\n',
    "a number": f'["1.0.0"]\n"vllm/v1/core.py" = 5\n"vllm/v1/queue.py" = "{SHA}"\n'.encode(),
    "no hash": b'["1.0.0"]\n"vllm/v1/core.py" = "abc"\n',
    "no table": b'"1.0.0" = "vllm/v1/core.py"\n',
    "tables in tables": f'[1.0.0]\n"vllm/v1/core.py" = "{SHA}"\n'.encode(),
    "no files": b'["1.0.0"]\n',
    "a file of another folder": f'["1.0.0"]\n"vllm/../../etc/core.py" = "{SHA}"\n'.encode(),
    "no path": f'["1.0.0"]\n"core.py" = "{SHA}"\n'.encode(),
    "a huge number": b'["1.0.0"]\nx = ' + b"9" * 5000,
    "deep": b"x = " + b"[" * 100_000,
    "no name": f'["a b"]\n"vllm/v1/core.py" = "{SHA}"\n'.encode(),
}
PATCHES = {
    "no text": b"# upstream: vllm/v1/core.py\xff\n",
    "nothing": b"",
    "no headers": b"--- vllm/v1/core.py\n",
    "no diff": b"hello\n",
}
EDITS = {
    "another file": ("# upstream: vllm/v1/core.py", "# upstream: /etc/core.py"),
    "no release": ("# releases: 1.0.0", "# releases: "),
    "no lines": (",1 @@", ",0 @@"),
    "a huge number": (",1 @@", f",{'9' * 5000} @@"),
    "no such line": ("nth=1/1", "nth=0/1"),
}


def said(base: Path, verb: str, capsys: pytest.CaptureFixture[str]) -> str:
    code = main(["patch", verb, "--vllm", str(base), "--patches", str(base.parent / "patches")])
    told = capsys.readouterr().err
    assert (code, told.count("\n")) == (2, 1), told
    return told


@pytest.mark.parametrize("verb", ["status", "apply", "check"])
@pytest.mark.parametrize("text", TABLES.values(), ids=TABLES)
def test_a_table_that_is_none(base: Path, verb: str, text: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    table(text)(base.parent / "patches")
    assert str(base.parent / "patches" / patchset.SUPPORT) in said(base, verb, capsys)


@pytest.mark.parametrize("harm", [*map(patch, PATCHES.values()), *(edited(*pair) for pair in EDITS.values())])
def test_a_patch_that_is_none(base: Path, harm: Harm, capsys: pytest.CaptureFixture[str]) -> None:
    harm(base.parent / "patches")
    assert str(a_patch(base.parent / "patches")) in said(base, "status", capsys)


def test_a_patch_for_lines_that_the_file_has_not(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = a_patch(base.parent / "patches")
    path.write_text(path.read_text().replace("@@ -4,0", "@@ -900,0"))
    told = said(base, "check", capsys)
    assert f"the patch {path.relative_to(base.parent / 'patches')} for vllm/v1/core.py is damaged" in told
    assert "at line 900 lies outside the file" in told


@pytest.mark.parametrize("name", [patchset.SUPPORT, "patch"])
def test_a_pipe_is_not_waited_for(base: Path, name: str) -> None:
    folder = base.parent / "patches"
    path = a_patch(folder) if name == "patch" else folder / name
    path.unlink()
    os.mkfifo(path)
    words = ["patch", "status", "--vllm", str(base), "--patches", str(folder)]
    ran = subprocess.run(
        [sys.executable, "-m", "kvscope", *words], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    assert (ran.returncode, ran.stderr) == (2, f"kvscope: cannot use {path}: not a regular file\n")


SOURCES = {"no text": b"x = '\xff'\n", "no Python": b"def (\n", "a zero": b"x = 1\0\n"}


@pytest.mark.parametrize("content", SOURCES.values(), ids=SOURCES)
def test_a_release_whose_files_are_no_source_is_not_ported_to(
    base: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(base, base.parent / "new")
    (base.parent / "new/vllm/v1/core.py").write_bytes(content)
    words = ["--to", str(base.parent / "new"), "--release", "2.0.0", "--patches", str(base.parent / "patches")]
    assert main(["patch", "port", *words]) == 2
    told = capsys.readouterr().err
    assert (told.count("\n"), "new/vllm/v1/core.py" in told) == (1, True)


@pytest.mark.parametrize("content", SOURCES.values(), ids=SOURCES)
def test_an_edited_copy_that_is_no_source_is_refused(
    base: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    edited_copy = base.parent / "edited"
    (edited_copy / "vllm/v1/core.py").write_bytes((base / "vllm/v1/core.py").read_bytes() + content)
    words = ["--upstream", str(base), "--edited", str(edited_copy), "--patches", str(base.parent / "patches")]
    assert main(["patch", "make", *words, "--release", "2.0.0"]) == 2
    told = capsys.readouterr().err
    assert (told.count("\n"), "vllm/v1/core.py" in told) == (1, True)


@pytest.mark.parametrize("release", ["", 'a"b', "a\nb", "a, b"])
def test_a_release_has_a_name(base: Path, release: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = (base.parent / "patches" / patchset.SUPPORT).read_bytes()
    words = ["--upstream", str(base), "--edited", str(base.parent / "edited")]
    assert main(["patch", "make", *words, "--patches", str(base.parent / "patches"), "--release", release]) == 2
    assert "is no name of a release" in capsys.readouterr().err
    assert (base.parent / "patches" / patchset.SUPPORT).read_bytes() == before

"""vLLM's Python files as a release has them: out of its wheel, without what it takes to run.

A few megabytes of a few hundred. They are what patches are carried to and checked against.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

from kvscope.lab.environment import VLLM, check_room, home, locked
from kvscope.lab.errors import LabError
from kvscope.lab.process import run_logged
from kvscope.lab.progress import Progress
from kvscope.model.errors import InputError
from kvscope.vllm import patchset

NEEDED_BYTES = 1 << 30

# The Python files are the same in every wheel of a release, so that one machine's is taken on all of them.
PLATFORMS = tuple(f"manylinux_2_{minor}_x86_64" for minor in range(17, 40))
CHOICE = ("--no-deps", "--only-binary", ":all:", "--implementation", "cp", "--abi", "abi3", "--python-version", "3.12")


def folder(release: str) -> Path:
    """The folder that holds, or would hold, that release's `vllm`."""
    return home() / f"vllm-{release}-files"


def others() -> list[str]:
    """The supported releases that the lab does not run, oldest first."""
    return [release for release in patchset.read_table(patchset.folder()) if release != VLLM]


def fetched(release: str, progress: Progress) -> Path:
    """The folder that holds that release's `vllm`, fetched unless it is there. LabError: it cannot be had. InputError:
    it is no release."""
    if not re.fullmatch(r"\d+(\.\w+)+", release, re.ASCII):
        raise InputError(f"{release!r} is no release of vLLM; write it like {VLLM}")
    target = folder(release)
    with locked(target):
        if not target.exists():
            _fetch(release, target, progress)
    return target


def _fetch(release: str, target: Path, progress: Progress) -> None:
    check_room(target, NEEDED_BYTES)
    progress.phase(f"fetch the Python files of vLLM {release} (a wheel of some 350 MB, once)")
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        wheel = _download(release, Path(scratch), target.with_name(f"{target.name}.log"), progress)
        unpack(wheel, Path(scratch) / "files")
        (Path(scratch) / "files").rename(target)


def _download(release: str, scratch: Path, log: Path, progress: Progress) -> Path:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--no-cache-dir", "download"]
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    words = [*pip, *CHOICE, *platforms, "--progress-bar", "off", "--dest", str(scratch), f"vllm=={release}"]
    run_logged(f"pip download vllm=={release}", words, log, progress.detail)
    (wheel,) = scratch.glob("*.whl")
    return wheel


def unpack(wheel: Path, target: Path) -> None:
    """Put the Python files of the wheel's `vllm` into `target`. LabError: it has none."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith("vllm/") and name.endswith(".py")]
        if not names:
            raise LabError(f"{wheel.name} holds no Python file of vLLM")
        for name in names:
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(name) as source, path.open("wb") as copy:
                shutil.copyfileobj(source, copy)

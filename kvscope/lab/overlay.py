"""kvscope as the engines see it: a folder for their PYTHONPATH, so that vLLM's environment stays stock.

It holds copies of the package, of the patches and of the distribution's metadata, which is where vLLM
looks for plugins. A copy, so that whoever edits a source checkout does not change a run under way.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import kvscope
from kvscope.lab.environment import locked
from kvscope.lab.errors import LabError
from kvscope.vllm import patchset

PLUGINS = "vllm.general_plugins"


def made(cache: Path) -> Path:
    """The overlay of what is installed now, made if that has changed. LabError: it would have no plugin."""
    parts = installed()
    folder = cache / "overlay" / fingerprint(parts)
    with locked(folder.parent):
        if not folder.exists():
            build(parts, folder)
    return folder


def installed() -> list[Path]:
    """The folders of the package, its metadata and, in a source checkout, the patches beside it."""
    package = Path(kvscope.__file__).parent
    patches = patchset.folder()
    return [package, metadata(), *([] if patches.is_relative_to(package) else [patches])]


def metadata() -> Path:
    """The distribution's metadata folder. LabError: kvscope runs without having been installed."""
    for file in importlib.metadata.files("kvscope") or ():
        if file.name == "METADATA":
            return Path(str(file.locate())).parent
    raise LabError("kvscope has no metadata here, so vLLM would not find its plugin: install it with pip")


def fingerprint(parts: list[Path]) -> str:
    """Changes when a file among `parts` does."""
    told = hashlib.sha256()
    for part in parts:
        for file in sorted(_files(part)):
            stat = file.stat()
            told.update(f"{file} {stat.st_mtime_ns} {stat.st_size}\n".encode())
    return told.hexdigest()[:16]


def _files(part: Path) -> Iterator[Path]:
    return (file for file in part.rglob("*") if file.is_file() and "__pycache__" not in file.parts)


def build(parts: list[Path], folder: Path) -> None:
    """Fill `folder`: under another name first, so that what is there is whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        target = Path(scratch) / "overlay"
        for part in parts:
            shutil.copytree(part, target / part.name, ignore=shutil.ignore_patterns("__pycache__"))
        check(target)
        target.rename(folder)


def check(folder: Path) -> None:
    """LabError if vLLM would find no plugin in the overlay."""
    for distribution in importlib.metadata.distributions(path=[str(folder)]):
        if any(entry.group == PLUGINS for entry in distribution.entry_points):
            return
    raise LabError("kvscope's metadata here declares no vLLM plugin: install it anew with pip")

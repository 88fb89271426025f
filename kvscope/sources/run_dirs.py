"""Run directories of this host: what to say where no engine records in the one that was looked at.

Every verb says it in these words, so that no two of them contradict each other. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kvscope.probe.reader import RingError, list_rings
from kvscope.probe.ring import default_run_dir

OURS = "kvscope-*"
"""How run directories are called that kvscope names itself; they lie side by side."""


def none_in(run_dir: Path) -> str:
    """That no engine records there, and where one does."""
    found = ", ".join(map(str, elsewhere(run_dir)))
    others = f"; engines record in {found}: name it with --run-dir" if found else ""
    return f"no engine records in {run_dir}{others}"


def elsewhere(run_dir: Path) -> list[Path]:
    """Run directories beside this one, and beside this user's own, in which a living process records."""
    beside = {folder for parent in {run_dir.parent, default_run_dir().parent} for folder in _listed(parent)}
    return sorted(folder for folder in beside - {run_dir} if records_in(folder))


def records_in(run_dir: Path) -> bool:
    """Whether a living process has rings there, as far as this user may see."""
    try:
        return any(ring.alive for ring in list_rings(run_dir, []))
    except RingError:
        return False


def _listed(parent: Path) -> Iterator[Path]:
    try:
        yield from parent.glob(OURS)
    except OSError:
        return

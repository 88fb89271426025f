"""Run directories of this host: what to say where no engine records in the one that was looked at.

Every verb says it in these words, so that no two of them contradict each other. Standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from kvscope.model.counting import count
from kvscope.probe.reader import RingError, list_rings, ring_paths
from kvscope.probe.ring import default_run_dir

OURS = "kvscope-*"
"""How run directories are called that kvscope names itself; they lie side by side."""


def none_in(run_dir: Path) -> str:
    """That no engine records there, and where one does; or that this user may not see whether one does."""
    if closed := closed_in(run_dir):
        owner = closed[0].stat().st_uid
        return (
            f"{count(len(closed), 'ring file')} in {run_dir} may not be read by user {os.geteuid()}: run kvscope as"
            f" user {owner} or as root, or start the engines with KVSCOPE_GROUP naming a group that both are in"
        )
    found = elsewhere(run_dir)
    which = "it" if len(found) == 1 else "one of them"
    others = f"; engines record in {', '.join(map(str, found))}: name {which} with --run-dir" if found else ""
    return f"no engine records in {run_dir}{others}"


def closed_in(run_dir: Path) -> list[Path]:
    """Ring files there that this user may not read."""
    try:
        return [path for path in ring_paths(run_dir) if path.exists() and not os.access(path, os.R_OK)]
    except RingError:
        return []


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

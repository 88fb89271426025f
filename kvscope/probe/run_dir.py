"""Why a run directory cannot be read, and what to do then."""

from __future__ import annotations

import os
from pathlib import Path


def why_unreadable(run_dir: Path, error: OSError) -> str:
    """A sentence, after its files could not be listed."""
    if not isinstance(error, NotADirectoryError | PermissionError):
        return f"{run_dir} cannot be read: {(error.strerror or str(error)).lower()}"
    try:
        found = run_dir.stat()
    except PermissionError:
        return f"{run_dir} cannot be reached: a folder above it belongs to another user; run as that user"
    if not run_dir.is_dir():
        return f"{run_dir} is not a directory"
    if found.st_uid == os.geteuid():
        return f"{run_dir} is closed to its own user; open it: chmod u+rwx {run_dir}"
    return (
        f"{run_dir} belongs to another user (uid {found.st_uid}): run as that user, or start its engines with "
        "KVSCOPE_GROUP"
    )

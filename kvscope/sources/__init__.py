"""Where events come from: live rings, recordings, JSON lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvscope.sources.opening import Opened


def open_sources(paths: Sequence[Path | str], run_dir: Path | str | None = None) -> Opened:
    """All events of files, of directories with rings, of `-` (standard input), and of `run_dir` where one is named.

    InputError says what cannot be read, or that there is nothing at all.
    """
    # Imported late: verbs that look at rings alone have to work where numpy is not.
    from kvscope.sources.opening import open_all

    return open_all(paths, run_dir)

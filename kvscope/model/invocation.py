"""What to type to call this kvscope again: whoever is told a command shall be able to paste it."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

NAME = "kvscope"


def command() -> str:
    """Its name where PATH leads to it, else how it was called: by a path (`.venv/bin/kvscope`), or as a module."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py" and called.parent.name == NAME:
        return f"{shlex.quote(sys.executable)} -m {NAME}"
    found = shutil.which(NAME)
    known = called.name != NAME or (found is not None and _same(found, called))
    return NAME if known else shlex.quote(str(called))


def _same(one: str, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False

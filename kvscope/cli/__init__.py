"""The `kvscope` command: finds the verb, runs it, and turns whatever happens into one line and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kvscope.cli import front, outcome


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: this process's) and return its exit code; raises nothing."""
    words = list(sys.argv[1:] if argv is None else argv)
    return outcome.guarded(lambda: front.run(words))

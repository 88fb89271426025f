"""What to tell a person of sources that hold no event: one sentence, whoever read them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def no_event(paths: Sequence[Path | str], notes: Sequence[str]) -> str:
    """`notes`: what reading them had to say, which is why, if there is any."""
    listed = ", ".join(map(str, paths))
    if notes:
        return "; ".join((*notes, f"no event can be read in {listed}: copy it whole, or name another recording"))
    return f"no process has recorded anything in {listed}; name another recording"

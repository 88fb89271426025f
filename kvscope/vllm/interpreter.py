"""Asking another Python what it has, without importing anything of it here."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TypeVar

from kvscope.model.errors import InputError

PATIENCE_S = 120.0

Answer = TypeVar("Answer")


def ask(python: Path | str, program: str, kind: type[Answer]) -> Answer:
    """What `program` printed last, as JSON of this kind. InputError: whatever `python` is, it did not answer so."""
    try:
        ran = subprocess.run(
            [str(python), "-c", program], stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S
        )
    except OSError as error:
        raise _refused(python, (error.strerror or str(error)).lower()) from None
    except subprocess.TimeoutExpired:
        raise _refused(python, f"no answer within {PATIENCE_S:.0f} s") from None
    if ran.returncode:
        raise _refused(python, f"it ended with code {ran.returncode}{_last_words(ran.stderr)}")
    try:
        answer = json.loads((ran.stdout.splitlines() or [b""])[-1])
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, kind):
        raise _refused(python, "it ran, and did not do what it was told to")
    return answer


def _last_words(said: bytes) -> str:
    lines = said.decode("utf-8", "replace").split("\n")
    return next((f": {line.strip()[:300]}" for line in reversed(lines) if line.strip()), "")


def _refused(python: Path | str, reason: str) -> InputError:
    return InputError(f"{python} is not a working Python interpreter: {reason}")

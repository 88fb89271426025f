"""Standard error and exit codes: the only place that writes the one or decides the other.

    0    done
    1    what was asked for did not work (an engine, an installation, a load, a check of patches)
    2    input that cannot be used, or an extra that is not installed
    3    nothing there to act on (no engine, no rings)
    70   a fault of kvscope's own
    130  interrupted
    141  the reader of our output went away

Standard output is data. A verb that has progress to show passes `say` down to where the work is done.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

from kvscope.lab.errors import LabError
from kvscope.model.errors import InputError

OK = 0
LAB_FAILED = 1
BAD_INPUT = 2
OUR_FAULT = 70
INTERRUPTED = 130
PIPE_CLOSED = 141

DEBUG = "KVSCOPE_DEBUG"

EXTRAS = {"numpy": "report", "rich": "report", "aiohttp": "lab"}
"""The package that may be missing -> the extra that brings it."""


def say(text: str) -> None:
    """Write one line to standard error."""
    print(text, file=sys.stderr, flush=True)


def guarded(work: Callable[[], int]) -> int:
    """Do `work` and return its exit code; whatever it raises becomes one line and an exit code."""
    # The outermost frame of the command: catching everything is its purpose.
    try:
        code = work()
        sys.stdout.flush()
        return code
    except BaseException as error:  # noqa: BLE001
        return outcome_of(error)


def outcome_of(error: BaseException) -> int:
    """Tell the person what `error` means, and return the exit code for it."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else OK if error.code is None else BAD_INPUT
    if isinstance(error, BrokenPipeError):
        discard_output()
        return PIPE_CLOSED
    if os.environ.get(DEBUG) == "1":
        traceback.print_exception(error)
    code, sentence = verdict(error)
    say(f"kvscope: {sentence}")
    return code


def verdict(error: BaseException) -> tuple[int, str]:
    """Exit code and sentence for an error that a person should hear of."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, "interrupted"
    if isinstance(error, InputError):
        return BAD_INPUT, str(error)
    if isinstance(error, LabError):
        return LAB_FAILED, str(error)
    if isinstance(error, OSError) and error.filename is not None:
        return BAD_INPUT, f"cannot use {error.filename}: {(error.strerror or str(error)).lower()}"
    if isinstance(error, ModuleNotFoundError) and (extra := missing_extra(error)):
        package = str(error.name).partition(".")[0]
        return BAD_INPUT, f"{package} is not installed here; run: pip install 'kvscope[{extra}]'"
    found = " ".join(f"{type(error).__name__}: {error}".split())
    return OUR_FAULT, f"this is a fault of kvscope's own: {found} ({DEBUG}=1 shows where)"


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """The extra that would bring the module, or None if none does."""
    return EXTRAS.get((error.name or "").partition(".")[0])


def discard_output() -> None:
    """Point standard output at nothing, so that the interpreter's last flush does not fail again."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)

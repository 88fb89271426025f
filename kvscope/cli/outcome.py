"""Standard error and exit codes: the only place that writes the one or decides the other.

    0    done
    1    what was asked for did not work (an engine, an installation, a load, a check of patches)
    2    input that cannot be used, output that nothing takes, or an extra that is not installed
    3    nothing there to act on (no engine, no rings)
    70   a fault of kvscope's own
    130  interrupted
    141  the reader of our output went away

Standard output is data. A verb that has progress to show passes `say` down to where the work is done.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from kvscope.lab.errors import LabError
from kvscope.model.controls import on_one_line, seen
from kvscope.model.errors import InputError, NothingThereError, SeveralFitError

OK = 0
LAB_FAILED = 1
BAD_INPUT = 2
NOTHING = 3
OUR_FAULT = 70
INTERRUPTED = 130
PIPE_CLOSED = 141
STDOUT = "standard output"

DEBUG = "KVSCOPE_DEBUG"

EXTRAS = {
    "numpy": "report", "rich": "report", "textual": "top", "aiohttp": "lab", "prometheus_client": "serve",
    "grafana_client": "dashboards", "grafana_foundation_sdk": "dashboards", "niquests": "dashboards",
    "pyarrow": "export", "perfetto": "export", "opentelemetry": "export", "google": "export",
}  # fmt: skip
"""The package that may be missing -> the extra that brings it."""

REFUSALS = frozenset(
    getattr(errno, name)
    for name in ("ENOSPC", "EDQUOT", "EFBIG", "EIO", "EROFS", "ESTALE", "EMFILE", "ENFILE", "ENOMEM")
)
"""Of the system, for which neither the input nor kvscope is to blame."""


def say(text: str) -> None:
    """Write one line to standard error. Where that is closed, full, or has lost its reader, the work goes on."""
    _put(on_one_line(text))


def say_lines(text: str) -> None:
    """The same of what has several lines: a traceback, the end of a log, a list to choose from."""
    _put(seen(text))


def _put(text: str) -> None:
    if sys.stderr is not None:  # print() would take standard output instead
        with suppress(OSError):
            print(text, file=sys.stderr, flush=True)


def guarded(work: Callable[[], int]) -> int:
    """Do `work` and return its exit code; whatever it raises becomes one line and an exit code."""
    # The outermost frame of the command: catching everything is its purpose.
    try:
        if sys.stdout is None:
            raise InputError("standard output is closed; let it go somewhere: a terminal, a file, a pipe or /dev/null")
        _show_what_it_can(sys.stdout)
        _name(sys.stdout)
        code = _done(work)
        sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001
        code = outcome_of(error)
    if sys.stderr is not None:
        unwritten(sys.stderr)
    return code


def _done(work: Callable[[], int]) -> int:
    try:
        return work()
    except SystemExit as decided:
        return decided.code if isinstance(decided.code, int) else OK if decided.code is None else BAD_INPUT


def outcome_of(error: BaseException) -> int:
    """Tell the person what `error` means, and return the exit code for it."""
    reason = unwritten(sys.stdout) if isinstance(error, OSError) and sys.stdout is not None else ""
    if isinstance(error, OSError) and error.filename == STDOUT:
        reason = _reason(error)
    if isinstance(error, BrokenPipeError):
        return PIPE_CLOSED
    if os.environ.get(DEBUG) == "1":
        say_lines("".join(traceback.format_exception(error)).rstrip())
    code, sentence = (BAD_INPUT, f"cannot write {STDOUT}: {reason}") if reason else verdict(error)
    put = say_lines if isinstance(error, (LabError, SeveralFitError)) else say
    put(f"kvscope: {sentence}")
    return code


def verdict(error: BaseException) -> tuple[int, str]:
    """Exit code and sentence for an error that a person should hear of."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, "interrupted"
    if isinstance(error, InputError):
        return NOTHING if isinstance(error, NothingThereError) else BAD_INPUT, str(error)
    if isinstance(error, LabError):
        return LAB_FAILED, str(error)
    if isinstance(error, OSError) and error.filename is not None:
        return BAD_INPUT, f"cannot use {error.filename}: {_reason(error)}"
    if isinstance(error, OSError) and error.errno in REFUSALS:
        return BAD_INPUT, f"the system does not let it go on: {_reason(error)} ({DEBUG}=1 shows where)"
    if isinstance(error, MemoryError):
        return BAD_INPUT, "there is not enough memory for this; read less at a time"
    if isinstance(error, ModuleNotFoundError) and (extra := missing_extra(error)):
        return BAD_INPUT, not_installed(error, extra)
    found = " ".join(f"{type(error).__name__}: {error}".split())
    return OUR_FAULT, f"this is a fault of kvscope's own: {found} ({DEBUG}=1 shows where)"


def not_installed(error: ModuleNotFoundError, extra: str) -> str:
    """What to do about a package that is missing."""
    return f"{str(error.name).partition('.')[0]} is not installed here; run: pip install 'kvscope[{extra}]'"


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """The extra that would bring the module, or None if none does."""
    return EXTRAS.get((error.name or "").partition(".")[0])


def unwritten(stream: TextIO) -> str:
    """Why a stream does not take what was written to it, or nothing if it does. What is left is thrown away, so that
    the interpreter's last flush does not fail again."""
    try:
        stream.flush()
    except OSError as error:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)
        return _reason(error)
    return ""


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _name(stream: TextIO) -> None:
    """Have errors of writing say that it was standard output: what is too large for a buffer, or has none, is not
    there any more when `unwritten` looks."""
    buffer = getattr(stream, "buffer", None)
    if not isinstance(buffer, (io.BufferedWriter, io.FileIO)) or "write" in vars(buffer):
        return
    write = buffer.write

    def named(data: bytes) -> int:
        try:
            return write(data)
        except OSError as error:
            error.filename = error.filename or STDOUT
            raise

    vars(buffer)["write"] = named


def _show_what_it_can(stream: TextIO) -> None:
    """Names of files and engines may hold what an encoding lacks: that is no reason to end."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")

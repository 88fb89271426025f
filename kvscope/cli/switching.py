"""What `kvscope on` and `kvscope off` have in common."""

from __future__ import annotations

from pathlib import Path

from kvscope.cli.outcome import BAD_INPUT, OK, say
from kvscope.model.controls import seen
from kvscope.model.errors import InputError
from kvscope.probe import control
from kvscope.probe.reader import RingError, list_rings

NOTHING = 3
"""Exit code when there was nothing to act on."""


def switch(run_dir: Path, engine: str | None, on: bool) -> int:
    """Switch the processes of an engine, or all, and print one line for each. 2: one may not be switched."""
    faults: list[RingError] = []
    try:
        changed = control.switch(run_dir, engine, on, faults)
        for fault in faults:
            say(f"kvscope: {fault}")
        if not changed:
            say(f"kvscope: {_nobody(run_dir, engine)}")
            return BAD_INPUT if faults else NOTHING
    except RingError as error:
        raise InputError(str(error)) from None
    word = "on" if on else "off"
    for each in changed:
        state = word if each.was_on != on else f"{word} already"
        print(seen(f"{each.engine or '-'}  pid {each.pid}  {state}"))
    return BAD_INPUT if any(isinstance(fault, control.Refused) for fault in faults) else OK


def _nobody(run_dir: Path, engine: str | None) -> str:
    names = sorted({ring.engine or str(ring.header.pid) for ring in list_rings(run_dir, []) if ring.alive})
    if not names:
        return f"no living process has rings in {run_dir}; `kvscope doctor` says why, --run-dir names another place"
    return f"no engine is called {engine}; these record here: {', '.join(names)}"

"""`python -m kvscope.probe`: look at, copy, switch and clear rings where nothing but Python is installed.

Data goes to stdout, sentences to stderr. Exit codes: 0 done, 2 bad input, 3 no rings.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from kvscope.probe import control, ids, reader, recording, ring, tap
from kvscope.probe.hiding import hiding

DONE, BAD_INPUT, NO_RINGS = 0, 2, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit code."""
    options = _parser().parse_args(arguments)
    verb: Callable[[argparse.Namespace], int] = options.verb
    try:
        code = verb(options)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        return DONE
    except (reader.RingError, ids.IdsError, OSError) as error:
        return _say(str(error), BAD_INPUT)
    finally:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            _leave(stream)


def _leave(stream: TextIO) -> None:
    """Throw away what a stream does not take, or Python complains when it flushes."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def dump(options: argparse.Namespace) -> int:
    """Write what the rings hold as a recording."""
    hidden = ids.ids_of(options.ids, options.ids_key)
    if not reader.list_rings(options.run_dir, []):
        return _no_rings(options.run_dir)
    if options.file == "-" and sys.stdout is None:
        return _say("standard output is closed: name a file", BAD_INPUT)
    if options.file == "-" and sys.stdout.isatty():
        return _say("a recording is not for a terminal: name a file, or redirect stdout", BAD_INPUT)
    with open(1 if options.file == "-" else options.file, "wb", closefd=options.file != "-") as file:
        drained = tap.Tap(options.run_dir, hiding(recording.Writer(file), hidden))
        drained.end()
    for fault in drained.faults:
        _say(fault, DONE)
    return _say(f"events {drained.events}, processes {drained.processes}, overwritten {drained.lost}", DONE)


def list_processes(options: argparse.Namespace) -> int:
    """Print a line for each ring file."""
    faults: list[reader.RingError] = []
    found = reader.list_rings(options.run_dir, faults)
    for fault in faults:
        _say(str(fault), DONE)
    for each in found:
        try:
            print(_line(each))
        except reader.RingError as error:
            _say(str(error), DONE)
    return DONE if found or faults else _no_rings(options.run_dir)


def switch(options: argparse.Namespace) -> int:
    """Switch recording on or off in living processes."""
    faults: list[reader.RingError] = []
    changed = control.switch(options.run_dir, options.engine, options.on, faults)
    for each in changed:
        print(f"{each.pid} {each.engine or '-'} {'on' if options.on else 'off'}")
    for fault in faults:
        _say(str(fault), DONE)
    if changed or faults:
        return BAD_INPUT if not changed or any(isinstance(fault, control.Refused) for fault in faults) else DONE
    meant = f" of engine {options.engine}" if options.engine else ""
    return _say(f"no living process{meant} in {options.run_dir}", NO_RINGS)


def clean(options: argparse.Namespace) -> int:
    """Remove the rings of dead processes."""
    faults: list[reader.RingError] = []
    for path in control.remove_dead(options.run_dir, options.older_than, faults):
        print(path)
    for fault in faults:
        _say(str(fault), DONE)
    return BAD_INPUT if faults else DONE


def _line(each: reader.RingFile) -> str:
    header = each.header
    told = {
        "refused": header.refused,
        "errors": header.errors,
        "note": header.note,
        "switched itself off": header.self_off,
    }
    state = "dead" if not each.alive else "on" if header.on else "off"
    size = f"{header.file_bytes / 2**20:.1f}/{header.stated_bytes / 2**20:.1f} MiB"
    events = sum(segment.events.head() for segment in each.segments())
    extra = "; ".join(f"{name}: {value}" for name, value in told.items() if value)
    return f"{header.pid} {each.engine or '-'} {state} events {events} {size} {each.path.name} {extra}".rstrip()


def _no_rings(run_dir: Path) -> int:
    return _say(f"no rings in {run_dir}; start an instrumented engine, or name its KVSCOPE_RUN_DIR", NO_RINGS)


def _say(sentence: str, code: int) -> int:
    if sys.stderr is not None:  # print() would take standard output instead
        with suppress(OSError):
            print(f"kvscope: {sentence}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m kvscope.probe", description=(__doc__ or "").split("\n")[0])
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    def add(name: str, verb: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=verb.__doc__, description=verb.__doc__)
        made.add_argument("--run-dir", type=Path, default=ring.default_run_dir(), help="default: %(default)s")
        made.set_defaults(verb=verb)
        return made

    dumping = add("dump", dump)
    dumping.add_argument("file", nargs="?", default="-", help="where to; - is stdout")
    dumping.add_argument("--ids", choices=ids.MODES, default=ids.KEEP, help="how to write request ids; default: keep")
    dumping.add_argument("--ids-key", type=Path, metavar="FILE", help="the key for hash; default: one nobody keeps")
    add("list", list_processes)
    for name in ("on", "off"):
        turn = add(name, switch)
        turn.add_argument("engine", nargs="?", help="an engine's name or a pid; default: all")
        turn.set_defaults(on=name == "on")
    older = "only if their last record is that old"
    add("clean", clean).add_argument("--older-than", type=float, default=0.0, metavar="SECONDS", help=older)
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""`python -m kvscope.probe`: look at, copy, switch and clear rings where nothing but Python is installed.

Data goes to stdout, sentences to stderr. Exit codes: 0 done, 2 bad input, 3 no rings.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from kvscope.probe import control, reader, recording, ring, tap

DONE, BAD_INPUT, NO_RINGS = 0, 2, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit code."""
    options = _parser().parse_args(arguments)
    verb: Callable[[argparse.Namespace], int] = options.verb
    try:
        return verb(options)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it flushes
        return DONE
    except (reader.RingError, OSError) as error:
        return _say(str(error), BAD_INPUT)


def dump(options: argparse.Namespace) -> int:
    """Write what the rings hold as a recording."""
    if not reader.list_rings(options.run_dir, []):
        return _no_rings(options.run_dir)
    if options.file == "-" and sys.stdout.isatty():
        return _say("a recording is not for a terminal: name a file, or redirect stdout", BAD_INPUT)
    with open(1 if options.file == "-" else options.file, "wb", closefd=options.file != "-") as file:
        drained = tap.Tap(options.run_dir, recording.Writer(file))
        drained.end()
    for fault in drained.faults:
        _say(fault, DONE)
    return _say(f"{drained.events} events of {drained.processes} processes; {drained.lost} were overwritten", DONE)


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
    changed = control.switch(options.run_dir, options.engine, options.on)
    for each in changed:
        print(f"{each.pid} {each.engine or '-'} {'on' if options.on else 'off'}")
    if changed:
        return DONE
    meant = f" of engine {options.engine}" if options.engine else ""
    return _say(f"no living process{meant} in {options.run_dir}", NO_RINGS)


def clean(options: argparse.Namespace) -> int:
    """Remove the rings of dead processes."""
    for path in control.remove_dead(options.run_dir, options.older_than):
        print(path)
    return DONE


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
    return f"{header.pid} {each.engine or '-'} {state} {events} events {size} {each.path.name} {extra}".rstrip()


def _no_rings(run_dir: Path) -> int:
    return _say(f"no rings in {run_dir}; start an instrumented engine, or name its KVSCOPE_RUN_DIR", NO_RINGS)


def _say(sentence: str, code: int) -> int:
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

    add("dump", dump).add_argument("file", nargs="?", default="-", help="where to; - is stdout")
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

"""`kvscope dump`: what the rings of this host hold at this moment, those of dead processes too, into a file."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from kvscope.cli.ids_arguments import add_ids, wanted_ids
from kvscope.cli.outcome import OK, say
from kvscope.cli.record import sentence
from kvscope.cli.sources_arguments import add_run_dir
from kvscope.cli.switching import NOTHING
from kvscope.model.errors import InputError
from kvscope.model.invocation import command
from kvscope.sources.run_dirs import closed_in, none_in

if TYPE_CHECKING:
    from kvscope.probe.reader import RingError

HELP = "save what the rings hold now, also those of dead processes"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """-o FILE, and how to write ids."""
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="the recording to write; - is standard output"
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it is there")
    add_ids(parser)
    add_run_dir(parser)


def run(args: argparse.Namespace) -> int:
    """0: it is written, 3: there are no rings that can be read, and no file was made."""
    from kvscope.probe.reader import RingError, list_rings
    from kvscope.sources.recorder import save

    ids = wanted_ids(args)
    faults: list[RingError] = []
    try:
        found = list_rings(args.run_dir, faults)
    except RingError as error:
        raise InputError(str(error)) from None
    if not found:
        say_none(args.run_dir, faults)
        return NOTHING
    done = save(args.run_dir, args.output, args.force, ids)
    for fault in done.faults:
        say(f"kvscope: {fault}")
    following = f"; next: {command()} report {shlex.quote(str(args.output))}" if args.output.is_file() else ""
    say(f"{args.output}: {sentence(done)}{following}")
    return OK


def say_none(run_dir: Path, faults: list[RingError]) -> None:
    """Why there is nothing to save."""
    if closed_in(run_dir):
        say(f"kvscope: {none_in(run_dir)}; nothing was written")
        return
    for fault in faults:
        say(f"kvscope: {fault}")
    rest = "nothing else lies there" if faults else "nor is anything left there by one that did"
    say(f"kvscope: {none_in(run_dir)}, {rest}; nothing was written")

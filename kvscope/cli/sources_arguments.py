"""The arguments by which every reading verb is told what to read."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kvscope.probe.ring import default_run_dir
from kvscope.sources import open_sources

if TYPE_CHECKING:
    from kvscope.sources.opening import Opened


def add_sources(parser: argparse.ArgumentParser) -> None:
    """FILE... and --run-dir."""
    parser.add_argument(
        "files",
        nargs="*",
        type=named,
        metavar="FILE",
        help="recordings, JSON lines, exported folders, directories with rings, - for standard input; several are read"
        " as one (default: the live rings of this host)",
    )
    parser.add_argument(
        "--run-dir",
        type=named,
        metavar="DIR",
        help=f"where live rings are, read beside the files (default: {default_run_dir()})",
    )


def named(text: str) -> str:
    """A name as it was given. ArgumentTypeError: it is empty, as a variable of a script is that was never set."""
    if not text:
        raise argparse.ArgumentTypeError("an empty name names nothing")
    return text


def add_run_dir(parser: argparse.ArgumentParser) -> None:
    """--run-dir alone, for verbs that look at live rings."""
    parser.add_argument(
        "--run-dir",
        type=lambda text: Path(named(text)),
        default=default_run_dir(),
        metavar="DIR",
        help="where the rings are (default: %(default)s)",
    )


def open_named(args: argparse.Namespace) -> Opened:
    """What the arguments name; if nothing, this host's live rings. InputError: not there, or unreadable."""
    return open_sources(args.files, run_dir_of(args))


def run_dir_of(args: argparse.Namespace) -> Path | str | None:
    """Where live rings are to be read, if any are."""
    given: Path | str | None = args.run_dir
    return given or (None if args.files else default_run_dir())

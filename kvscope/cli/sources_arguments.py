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
        metavar="FILE",
        help="recordings, JSON lines, directories with rings, - for standard input; several are read as one"
        " (default: the live rings of this host)",
    )
    parser.add_argument(
        "--run-dir", metavar="DIR", help=f"where live rings are, read beside the files (default: {default_run_dir()})"
    )


def add_run_dir(parser: argparse.ArgumentParser) -> None:
    """--run-dir alone, for verbs that look at live rings."""
    parser.add_argument(
        "--run-dir",
        type=Path,
        default=default_run_dir(),
        metavar="DIR",
        help="where the rings are (default: %(default)s)",
    )


def open_named(args: argparse.Namespace) -> Opened:
    """What the arguments name; if nothing, this host's live rings. InputError: not there, or unreadable."""
    run_dir = args.run_dir or (None if args.files else default_run_dir())
    return open_sources(args.files, run_dir)

"""`kvscope off`: have engines stop recording, until `kvscope on`."""

from __future__ import annotations

import argparse

from kvscope.cli import switching
from kvscope.cli.sources_arguments import add_run_dir

HELP = "switch recording off in running engines"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which engine, where."""
    parser.add_argument("engine", nargs="?", metavar="ENGINE", help="an engine's name, or a pid (default: all)")
    add_run_dir(parser)


def run(args: argparse.Namespace) -> int:
    """0: switched, 3: nothing to switch."""
    return switching.switch(args.run_dir, args.engine, on=False)

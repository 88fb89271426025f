"""Where a drawn page goes: a terminal, a pipe, a place without colour or without more than ASCII."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from kvscope.model.controls import UNSEEN
from kvscope.model.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from kvscope.analysis.render.page import Page

PIPE_WIDTH = 100
NARROWEST, WIDEST = 60, 300
ASCII_RULE, LINE_RULE = "-", "\u2500"


def add_looks(parser: argparse.ArgumentParser) -> None:
    """--plain and --width."""
    parser.add_argument("--plain", action="store_true", help="ASCII, no colour")
    parser.add_argument(
        "--width",
        type=int,
        metavar="COLUMNS",
        help=f"columns to draw on, {NARROWEST} to {WIDEST} (default: the terminal's; {PIPE_WIDTH} into a pipe)",
    )


def console_for(args: argparse.Namespace) -> Console:
    """The console that the looks ask for. InputError: a width that nothing fits."""
    from rich.console import Console

    if args.width is not None and not NARROWEST <= args.width <= WIDEST:
        raise InputError(f"--width {args.width}: choose between {NARROWEST} and {WIDEST} columns")
    width = args.width or _pipe_width()
    return Console(width=width, no_color=args.plain or None, highlight=False, markup=False, emoji=False)


def page_for(console: Console, plain: bool) -> Page:
    """An empty page that fits the console."""
    from kvscope.analysis.render.page import Page

    ascii_only = plain or not console.encoding.lower().startswith("utf")
    width = min(WIDEST, max(NARROWEST, console.width))
    return Page(width, ASCII_RULE if ascii_only else LINE_RULE)


def show(console: Console, page: Page, plain: bool) -> None:
    """Print the page. Into a pipe, or plain, there are no control codes; from ids there never are."""
    for line in page.lines:
        line.plain = line.plain.translate(UNSEEN)
        if plain:
            print(line.plain.encode("ascii", "backslashreplace").decode())
        elif not console.is_terminal:
            print(line.plain)
        else:
            console.print(line, no_wrap=True, crop=False, overflow="ignore", soft_wrap=True)


def _pipe_width() -> int | None:
    told = os.environ.get("COLUMNS", "")
    return PIPE_WIDTH if not sys.stdout.isatty() and not told.isdigit() else None

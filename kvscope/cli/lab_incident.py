"""`kvscope lab incident`: known incidents made for real, recorded, and held to what is said of them."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from kvscope.cli import front
from kvscope.cli.outcome import say
from kvscope.cli.tables import plain
from kvscope.model.errors import InputError
from kvscope.model.invocation import command

if TYPE_CHECKING:
    from kvscope.lab.making import Made


def describe(parser: argparse.ArgumentParser) -> None:
    """SLUG..., where to, with what."""
    parser.add_argument("cases", nargs="*", metavar="CASE", help="which to make, or all; none: list them")
    parser.add_argument("--list", action="store_true", help="list them")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="for a folder of each")
    parser.add_argument("--times", type=int, default=1, metavar="N", help="make each so often, on the same engines")


def run(args: argparse.Namespace) -> int:
    """Make the cases, or list them."""
    from datetime import datetime

    from kvscope.lab import cases, making, progress
    from kvscope.lab import run as lab

    if args.list or not args.cases:
        return _list()
    chosen = cases.chosen(args.cases)
    folder = args.output or lab.new_folder(datetime.now())
    with progress.shown(args.plain) as shown:

        def made(one: Made) -> None:
            shown.finish()
            _tell(one)

        making.make(chosen, making.MakeOptions(folder, args.times, args.python), shown, made)
    return 0


def _list() -> int:
    from kvscope.lab.cases import CASES, NOT_MADE

    print(plain(["case", "what is done"], [(case.name, case.done) for case in CASES]))
    print()
    print(plain(["not made here", "why"], list(NOT_MADE.items())))
    return 0


def _tell(made: Made) -> None:
    """What was made, and what diagnose says of it."""
    words = [str(made.recording)]
    if made.truth.beside:
        words += ["--baseline", str(made.folder.parent / made.truth.beside / made.recording.name)]
    say(f"{made.folder}: {made.truth.slug or 'healthy'}; diagnose says: {_said(words)}")
    say(f"next    {command()} diagnose {' '.join(shlex.quote(word) for word in words)}")


def _said(words: list[str]) -> str:
    """The slugs that diagnose names, the dearest first."""
    heard = io.StringIO()
    try:
        with contextlib.redirect_stdout(heard):
            front.run(["diagnose", *words, "--json"])
    except InputError as error:
        return str(error)  # the cases that come after it are made all the same
    return ", ".join(finding["slug"] for finding in json.loads(heard.getvalue())["findings"]) or "nothing found"

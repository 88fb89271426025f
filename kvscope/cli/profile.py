"""`kvscope profile`: what the engines' threads were doing, while each stage was open."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kvscope.cli.apart import check_apart
from kvscope.cli.durations import seconds
from kvscope.cli.outcome import OK, say
from kvscope.cli.positive import above_zero
from kvscope.cli.record import stopping
from kvscope.cli.sources_arguments import add_run_dir, named
from kvscope.cli.switching import NOTHING
from kvscope.cli.terminal import add_looks, console_for, page_for, show
from kvscope.export.making import check_free, write_whole
from kvscope.model.amounts import in_bytes
from kvscope.model.counting import count
from kvscope.model.errors import InputError
from kvscope.model.invocation import command
from kvscope.model.stages import STAGE
from kvscope.stacks import RATE_HZ

if TYPE_CHECKING:
    from kvscope.stacks.reading import Stacks
    from kvscope.stacks.targets import Target

HELP = "what the engines' threads were doing while each stage was open"

SPAN_S = 30.0
SLOWEST_HZ, FASTEST_HZ = 1, 500
FLAME, SPEEDSCOPE = "open it with a browser", "open it at https://www.speedscope.app"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Whom to sample and for how long, or a folder; what to write."""
    parser.add_argument(
        "names",
        nargs="*",
        type=named,
        metavar="ENGINE | FOLDER",
        help="engines to sample (default: all that record here), or a folder with an earlier profile or an incident",
    )
    parser.add_argument(
        "--for",
        type=above_zero(seconds),
        dest="span",
        default=SPAN_S,
        metavar="TIME",
        help="how long to sample (default: 30s)",
    )
    often = f"samples of each thread a second, {SLOWEST_HZ} to {FASTEST_HZ} (default: {RATE_HZ})"
    parser.add_argument("--rate", type=rate, default=RATE_HZ, metavar="HZ", help=often)
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="folder to keep moments and stacks in")
    parser.add_argument("--stage", choices=tuple(STAGE), metavar="STAGE", help="only samples while this stage was open")
    parser.add_argument("--flame", type=Path, metavar="FILE", help="write a flame graph (SVG)")
    parser.add_argument("--speedscope", type=Path, metavar="FILE", help="write a file for speedscope")
    parser.add_argument("--force", action="store_true", help="replace what --flame and --speedscope find there")
    parser.add_argument("--json", action="store_true", help="everything as one JSON document (docs/profile.md)")
    add_run_dir(parser)
    add_looks(parser)


def run(args: argparse.Namespace) -> int:
    """Sample, unless a folder was named; then show what is in it. 3: no engine records here."""
    from kvscope.stacks.session import STACKS

    for path in filter(None, (args.flame, args.speedscope)):
        check_free(path, args.force)  # not only once all is sampled
    check_apart(args.names, args.flame, args.speedscope)
    folder = _folder(args)
    if folder is None:
        targets = _targets(args)
        if not targets:
            return NOTHING
        folder = args.output or Path(f"kvscope-profile-{datetime.now():%Y%m%d-%H%M%S}")
        _take(args, targets, folder)
    return _show(args, folder, folder / STACKS)


def rate(text: str) -> int:
    """Samples a second. ArgumentTypeError: not a whole number of them, or too few or too many."""
    if not text.strip().isdecimal() or len(text) > 9 or not SLOWEST_HZ <= int(text) <= FASTEST_HZ:
        raise argparse.ArgumentTypeError(
            f"{text!r}: choose a whole number of samples a second, between {SLOWEST_HZ} and {FASTEST_HZ}"
        )
    return int(text)


def _check_names(names: list[str]) -> None:
    """InputError: one of them is no engine's name, and what it is instead."""
    folders = [name for name in names if Path(name).is_dir()]
    if folders:
        raise InputError(
            f"{folders[0]} is a folder: name one that `kvscope profile -o DIR` made alone, or engines alone"
        )
    for name in names:
        if Path(name).exists():
            raise InputError(f"{name} is a file; name the folder that `kvscope profile -o DIR` made, or engines")
        if "/" in name:
            raise InputError(f"there is no folder {name}; `kvscope profile -o DIR` makes one, or name engines")


def _folder(args: argparse.Namespace) -> Path | None:
    """The folder that was named, if one was."""
    if len(args.names) != 1 or not Path(args.names[0]).is_dir():
        return None
    if args.output:
        raise InputError(f"-o is where a new profile goes, and {args.names[0]} holds an earlier one; leave one out")
    return Path(args.names[0])


def _targets(args: argparse.Namespace) -> list[Target]:
    from kvscope.sources.run_dirs import none_in
    from kvscope.stacks.targets import recording_in

    _check_names(args.names)
    there = recording_in(args.run_dir)
    engines = dict.fromkeys(target.engine for target in there)
    if not engines:
        folders = f"no folder is called {', '.join(args.names)}, and " if args.names else ""
        say(f"kvscope: {folders}{none_in(args.run_dir)} (`kvscope doctor` says what keeps one from it)")
    elif missing := [name for name in args.names if name not in engines]:
        raise InputError(f"no engine and no folder is called {', '.join(missing)}; here record: {', '.join(engines)}")
    return [target for target in there if not args.names or target.engine in args.names]


def _take(args: argparse.Namespace, targets: list[Target], folder: Path) -> None:
    from kvscope.stacks.session import take

    engines = ", ".join(dict.fromkeys(target.engine for target in targets))

    def begun(processes: int) -> None:
        what = count(processes, "process", "processes")
        say(f"kvscope: sampling {what} of {engines} for {args.span:g} s, {args.rate} times a second; Ctrl-C ends it")

    with stopping(None) as stop:
        taken = take(stop, targets, args.run_dir, folder, args.rate, args.span, begun)
    for fault in taken.faults:
        say(f"kvscope: {fault}")
    if taken.samples:
        again = f"again: {command()} profile {shlex.quote(str(folder))}"
        say(f"kvscope: {count(taken.samples, 'sample')} in {folder}; {again}")
    else:
        say(f"kvscope: no sample was taken before {engines} ended or this was stopped; what it recorded is in {folder}")


def _show(args: argparse.Namespace, folder: Path, path: Path) -> int:
    from kvscope.core.critical_path import split
    from kvscope.core.hosts import ALONE
    from kvscope.sources import open_sources
    from kvscope.stacks.profile import profile, while_open
    from kvscope.stacks.reading import read_stacks

    if not path.exists():
        raise InputError(
            f"{folder} holds no {path.name}; `kvscope profile -o DIR` makes a folder with one, and so does"
            " `kvscope serve --stacks` with each incident"
        )
    stacks = read_stacks(path)
    opened = open_sources([folder], None)
    splits = split(opened.events, hosts=ALONE)  # stacks are told by this host's clock
    chosen = while_open(stacks, splits, args.stage) if args.stage else stacks
    _write(args, chosen)
    found = profile(stacks, splits).only(args.stage)
    if args.json:
        from kvscope.stacks.document import profile_document

        sys.stdout.write(profile_document(found, opened.notes))
        return OK
    from kvscope.analysis.render.profile import put_profile

    console = console_for(args)
    page = page_for(console, args.plain)
    put_profile(page, found, opened.notes)
    show(console, page, args.plain)
    return OK


def _write(args: argparse.Namespace, stacks: Stacks) -> None:
    """The files that were asked for."""
    from kvscope.stacks.flame import flame
    from kvscope.stacks.speedscope import speedscope

    engines = ", ".join(sorted({stacks.threads[number].engine for number in set(stacks.samples["thread"].tolist())}))
    title = f"{engines}: {count(len(stacks.samples), 'sample')}{f' while {args.stage} was open' if args.stage else ''}"
    for path, pieces, what in ((args.flame, flame, FLAME), (args.speedscope, speedscope, SPEEDSCOPE)):
        if path is not None:
            _put(path, pieces, stacks, title, what)


def _put(path: Path, pieces: Callable[[Stacks, str], Iterator[str]], stacks: Stacks, title: str, what: str) -> None:
    if not len(stacks.samples):
        say(f"kvscope: {path} is not written: there is no sample to put in it")
        return
    size = write_whole(path, pieces(stacks, title))
    say(f"kvscope: {count(len(stacks.samples), 'sample')} written to {path}, {in_bytes(size)}; {what}")

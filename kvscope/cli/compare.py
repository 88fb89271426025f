"""`kvscope compare`: two recordings, or two parts of one, beside each other."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kvscope.cli.apart import check_apart
from kvscope.cli.outcome import say
from kvscope.cli.sources_arguments import named
from kvscope.cli.terminal import add_looks, console_for, page_for, show
from kvscope.export.making import check_free, write_whole
from kvscope.model.amounts import in_bytes
from kvscope.model.errors import InputError

if TYPE_CHECKING:
    from kvscope.comparison.side import Side
    from kvscope.comparison.verdict import Verdict

HELP = "what differs between two recordings among requests that are alike"
WAYS = ("connector", "version", "pod")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What is compared, how it is told."""
    parser.add_argument("files", nargs="+", type=named, metavar="FILE", help="two recordings; with --by one")
    parser.add_argument("--by", choices=WAYS, help="compare parts of one recording: those with the most requests")
    parser.add_argument("--anyway", action="store_true", help="compare what no number can compare, such as two models")
    parser.add_argument("--json", action="store_true", help="everything as one JSON document")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write a picture: distributions, quantiles, stages")
    parser.add_argument("--force", action="store_true", help="replace what --svg finds there")
    add_looks(parser)


def run(args: argparse.Namespace) -> int:
    """Read both, compare, tell."""
    from kvscope.comparison.document import comparison_document
    from kvscope.comparison.render.page import put_comparison
    from kvscope.comparison.verdict import compared

    console = console_for(args)
    if args.svg is not None:
        check_free(args.svg, args.force)
        check_apart(args.files, args.svg)
    one, other = _parts(args) if args.by else _two(args)
    verdict = compared(one, other, args.anyway)
    if args.svg is not None:
        _draw(args.svg, verdict)
    if args.json:
        print(comparison_document(verdict), end="")
        return 0
    page = page_for(console, args.plain)
    put_comparison(page, verdict)
    show(console, page, args.plain)
    return 0


def _draw(path: Path, verdict: Verdict) -> None:
    from kvscope.comparison.quantiles import quantiles
    from kvscope.comparison.render.picture import picture

    size = write_whole(path, picture(verdict, quantiles(verdict.one, verdict.other, verdict.same)))
    say(f"kvscope: picture written to {path}, {in_bytes(size)}")


def _two(args: argparse.Namespace) -> tuple[Side, Side]:
    from kvscope.comparison.side import side_of
    from kvscope.core.critical_path import split
    from kvscope.sources import open_sources

    if len(args.files) != 2:
        raise InputError(f"compare takes two recordings, not {len(args.files)}; or one with --by {'|'.join(WAYS)}")
    if args.files[0] == args.files[1]:
        raise InputError(f"{args.files[0]} is named twice: name two recordings")
    events = [open_sources([name]).events for name in args.files]
    one, other = (side_of(name, split(each), each.processes) for name, each in zip(args.files, events, strict=True))
    return one, other


def _parts(args: argparse.Namespace) -> tuple[Side, Side]:
    from kvscope.comparison.side import parts_by
    from kvscope.core.critical_path import split
    from kvscope.sources import open_sources

    events = open_sources(args.files).events
    found = parts_by(args.by, split(events), events.processes)
    if len(found) < 2:
        told = f"all its requests are of {found[0].name}" if found else f"no engine told its {args.by}"
        raise InputError(f"there is nothing to compare by {args.by}: {told}")
    return found[0], found[1]

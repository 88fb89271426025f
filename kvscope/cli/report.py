"""`kvscope report`: where the time to first token went, for all requests of some sources."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING

from kvscope.cli.sources_arguments import add_sources, open_named
from kvscope.cli.terminal import add_looks, console_for, page_for, show
from kvscope.model.errors import InputError

if TYPE_CHECKING:
    from kvscope.analysis.summary import Summary
    from kvscope.model.splits import Splits

HELP = "where the time to first token went, for all requests"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Sources, what to judge by, how much to show, how it looks."""
    add_sources(parser)
    parser.add_argument("--slo", metavar="LIMITS", help="objectives to judge by: ttft=800ms,tpot=30ms")
    parser.add_argument("--last", metavar="TIME", help="only requests whose first token lies in the last 60s, 5m, ..")
    parser.add_argument("--without", metavar="TEXT", help="leave out requests whose id holds TEXT; says how many")
    parser.add_argument("--by-stage", action="store_true", help="every stage, exposed and hidden; nothing folded")
    parser.add_argument("--slowest", type=int, default=5, metavar="N", help="how many to list (default: 5)")
    parser.add_argument("--json", action="store_true", help="everything as one JSON document (docs/json.md)")
    add_looks(parser)


def run(args: argparse.Namespace) -> int:
    """Read, split, summarise, show."""
    from kvscope.analysis.objectives import duration_ns, parse_objectives
    from kvscope.analysis.summary import gather_summary, latest, without
    from kvscope.core.critical_path import split

    objectives = parse_objectives(args.slo) if args.slo is not None else None
    if args.slowest < 0:
        raise InputError(f"--slowest {args.slowest}: choose 0 or more")
    last = duration_ns(args.last) if args.last is not None else None
    opened = open_named(args)
    splits = split(opened.events)
    if last is not None:
        splits = latest(splits, last)
    notes = opened.notes
    if last is not None:
        notes = (
            f"requests are those of the last {args.last}, and all that are unfinished; events, what is missing of them"
            " and order violations are counted of all that was read",
            *notes,
        )
    if args.without:
        splits, note = without(splits, args.without)
        notes = (*notes, note)
    summary = gather_summary(opened.events, splits, objectives, args.slowest, notes)
    if args.json:
        return _print_json(summary, splits)
    return _print_page(args, summary)


def _print_json(summary: Summary, splits: Splits) -> int:
    from kvscope.analysis.document import report_document

    for piece in report_document(summary, splits):
        sys.stdout.write(piece)
    return 0


def _print_page(args: argparse.Namespace, summary: Summary) -> int:
    from kvscope.analysis.render.fleet import put_report

    console = console_for(args)
    page = page_for(console, args.plain)
    put_report(page, summary, args.by_stage, named_again(args))
    show(console, page, args.plain)
    return 0


def named_again(args: argparse.Namespace) -> str:
    """The sources as they have to be typed for the next command."""
    words = list(args.files) + (["--run-dir", args.run_dir] if args.run_dir else [])
    return shlex.join(words)

"""`kvscope whatif`: the time to first token under another connector or dispatch, estimated with bounds."""

from __future__ import annotations

import argparse

from kvscope.cli.durations import seconds
from kvscope.cli.sources_arguments import named
from kvscope.cli.terminal import add_looks, console_for, page_for, show

HELP = "estimate the time to first token under another connector or dispatch"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of which recording, under what."""
    parser.add_argument("files", nargs="+", type=named, metavar="FILE", help="recordings, read as one")
    parser.add_argument("--connector", choices=("push", "pull"), help="who moves the blocks; as recorded unless told")
    parser.add_argument(
        "--dispatch", choices=("early", "sequential"), help="when decode is called; as recorded unless told"
    )
    parser.add_argument(
        "--hold", type=seconds, default=0.0, metavar="TIME", help="the router waits so long before it calls decode"
    )
    parser.add_argument("--json", action="store_true", help="everything as one JSON document")
    add_looks(parser)


def run(args: argparse.Namespace) -> int:
    """Read, replay, tell."""
    from kvscope.core.critical_path import split
    from kvscope.sources import open_sources
    from kvscope.whatif.document import estimate_document
    from kvscope.whatif.estimate import Wish, estimate
    from kvscope.whatif.render.page import put_estimate

    console = console_for(args)
    opened = open_sources(args.files)
    events = opened.events
    found = estimate(events, split(events), Wish(args.connector, args.dispatch, round(args.hold * 1e9)))
    if args.json:
        print(estimate_document(found, opened.notes), end="")
        return 0
    page = page_for(console, args.plain)
    put_estimate(page, found, opened.notes)
    show(console, page, args.plain)
    return 0

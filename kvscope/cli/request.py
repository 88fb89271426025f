"""`kvscope request ID`: one request's path to its first token, both legs on one axis."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kvscope.cli.sources_arguments import add_sources, open_named
from kvscope.cli.terminal import add_looks, console_for, page_for, show
from kvscope.model.errors import InputError, SeveralFitError

if TYPE_CHECKING:
    from kvscope.model.events import Events
    from kvscope.model.requests import RequestSplit
    from kvscope.model.splits import Splits

HELP = "one request: its path to the first token, both legs on one axis"
LISTED = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The id, sources, how much, how it looks."""
    parser.add_argument("request", metavar="ID", help="request id of either leg or of the router, or a part of it")
    add_sources(parser)
    parser.add_argument("--all", action="store_true", help="the whole axis, and every moment")
    parser.add_argument("--json", action="store_true", help="everything as one JSON document (docs/json.md)")
    add_looks(parser)


def run(args: argparse.Namespace) -> int:
    """Find the request and draw it."""
    from kvscope.core.critical_path import split

    if not args.request.strip():
        raise InputError("an empty ID names no request; give a part of one (`kvscope report` lists the slowest)")
    events = open_named(args).events
    splits = split(events)
    found = splits[chosen(splits, args.request)]
    if args.json:
        from kvscope.analysis.document import request_document

        print(request_document(found), end="")
        return 0
    return _print_page(args, events, found)


def chosen(splits: Splits, text: str) -> int:
    """The one row that `text` means: an exact id, else a prefix, else a part. InputError: none, or several."""
    rows = splits.find(text)
    for fits in (lambda known: known == text, lambda known: known.startswith(text), lambda known: True):
        some = [row for row in rows if any(fits(known) for known in ids(splits, row) if text in known)]
        if len(some) == 1:
            return some[0]
    if not rows:
        raise InputError(
            f"no request has {text!r} in its id, among {len(splits):,}; `kvscope report` lists the slowest"
        )
    listed = "\n  ".join(_listed(splits, row) for row in rows[:LISTED])
    more = f"\n  and {len(rows) - LISTED:,} more" if len(rows) > LISTED else ""
    raise SeveralFitError(f"{text!r} is in the ids of {len(rows):,} requests; name one of\n  {listed}{more}")


def ids(splits: Splits, row: int) -> tuple[str, ...]:
    """Both legs' ids of a row."""
    keys = (int(splits.request[row]), int(splits.peer_request[row]))
    return tuple(splits.texts.get(key, f"#{key:016x}") for key in keys if key)


def _listed(splits: Splits, row: int) -> str:
    from kvscope.analysis.handles import shown
    from kvscope.analysis.render.amounts import Milliseconds

    found = splits[row]
    ttft = "" if found.ttft_ns is None else f"  TTFT {Milliseconds(found.ttft_ns).of(found.ttft_ns)} ms"
    return f"{shown(found.request)}  {found.shape}  {found.state.replace('_', '-')}{ttft}"


def _print_page(args: argparse.Namespace, events: Events, found: RequestSplit) -> int:
    from kvscope.analysis.render.waterfall import put_waterfall
    from kvscope.analysis.steps import steps_beside

    console = console_for(args)
    page = page_for(console, args.plain)
    put_waterfall(page, found, steps_beside(events, found), args.all)
    show(console, page, args.plain)
    return 0

"""`kvscope top`: where the time to first token goes, as it goes."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kvscope.cli.durations import LONGEST, seconds
from kvscope.cli.outcome import NOTHING, OK, say
from kvscope.cli.sources_arguments import add_run_dir, named
from kvscope.cli.terminal import NARROWEST, PIPE_WIDTH, WIDEST
from kvscope.model.errors import InputError

if TYPE_CHECKING:
    from kvscope.analysis.render.looks import Looks
    from kvscope.live.collector import Collector
    from kvscope.live.feed import Feed
    from kvscope.live.listing import Listing
    from kvscope.live.snapshot import Snapshot

HELP = "where the time to first token goes, live"

VIEWS = ("overview", "engines", "pairs", "requests", "stuck", "commitment")
EVERY_S = 2.0
NO_CURSOR = -1
SETTLE_S = 0.4
"""A first token is split when what led to it has been read: `--once` looks twice, so long apart."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to look at, how, and with which limits."""
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--connect", metavar="HOST:PORT", help="look at a far host, where `kvscope serve` runs")
    source.add_argument("--replay", nargs="+", type=named, metavar="FILE", help="play recordings")
    parser.add_argument("--at", type=seconds, metavar="TIME", help="where a replay begins (with --once: its end)")
    parser.add_argument("--paused", action="store_true", help="have a replay stand still at first")
    parser.add_argument("--speed", type=float, default=1.0, metavar="N", help="of a replay (default: 1)")
    parser.add_argument("--view", choices=VIEWS, default=VIEWS[0], help="the one to begin with (default: %(default)s)")
    parser.add_argument("--filter", default="", metavar="TERMS", help="which requests to list (docs/top.md)")
    parser.add_argument("--without", type=named, metavar="TEXT", help="leave out requests whose id holds TEXT")
    parser.add_argument("--window", type=seconds, default=60.0, metavar="TIME", help="how far back (default: 60s)")
    parser.add_argument("--slo", metavar="LIMITS", help="objectives to judge by: ttft=800ms,tpot=30ms")
    parser.add_argument("--once", action="store_true", help="print the view once and end")
    parser.add_argument("--plain", action="store_true", help="ASCII, no colour, no moving about: a page every --every")
    parser.add_argument("--every", type=seconds, default=EVERY_S, metavar="TIME", help="with --plain (default: 2s)")
    parser.add_argument("--width", type=int, metavar="COLUMNS", help=f"with --once or --plain, {NARROWEST} to {WIDEST}")
    add_run_dir(parser)


def run(args: argparse.Namespace) -> int:
    """Show it until the person leaves; or print it."""
    args.plain = args.plain or (sys.stdout.isatty() and os.environ.get("TERM") == "dumb")
    on_screen = sys.stdout.isatty() and not (args.once or args.plain)
    if on_screen:
        from kvscope.top import app  # noqa: F401 - first of all: it needs most, and whoever lacks it is told once

    from kvscope.analysis.objectives import parse_objectives
    from kvscope.live.collector import Collector, Settings
    from kvscope.live.filter import parse_filter
    from kvscope.live.listing import Listing
    from kvscope.live.memory import keep_freed

    if args.width is not None and not NARROWEST <= args.width <= WIDEST:
        raise InputError(f"--width {args.width}: choose between {NARROWEST} and {WIDEST} columns")
    if args.window <= 0:
        raise InputError("--window: choose some time, such as 60s")
    listing = Listing(wanted=parse_filter(args.filter) if args.filter else None)
    objectives = parse_objectives(args.slo) if args.slo is not None else None
    keep_freed()
    feed = feed_of(args)
    collector = Collector(feed, Settings(round(args.window * 1e9), objectives, args.without or ""))
    try:
        return (show if on_screen else print_pages)(args, collector, listing)
    finally:
        feed.close()


def feed_of(args: argparse.Namespace) -> Feed:
    """What the arguments name. InputError: it is not there."""
    if args.replay:
        from kvscope.live.replay import Replay

        replay = Replay([Path(name) for name in args.replay])
        replay.set_speed(args.speed)
        alone = args.once or not (sys.stdout.isatty() or args.plain)
        if args.at is not None or alone:
            replay.seek(LONGEST if args.at is None else args.at)
        if args.paused or alone:  # one page is of the instant that was asked for, not of a while later
            replay.pause()
        return replay
    if args.connect is not None:
        from kvscope.live.remote import Remote

        return Remote(args.connect)
    from kvscope.live.feed import Local

    return Local(args.run_dir)


def show(args: argparse.Namespace, collector: Collector, listing: Listing) -> int:
    """The app, until the person leaves."""
    from kvscope.top.app import Top
    from kvscope.top.terminal import drawn_on_output

    app = Top(collector, looks_of(args), args.view, listing)
    with drawn_on_output():
        error = app.run()
    app.finish()
    if error is not None:
        raise error
    return app.return_code or 0


def print_pages(args: argparse.Namespace, collector: Collector, listing: Listing) -> int:
    """A page, or one every few seconds until interrupted. 3: one page, and there is no engine."""
    from kvscope.top.views import views

    (put,) = (view.put for view in views(listing) if view.name == args.view)
    width = args.width or _width()
    looks = looks_of(args)
    _await(collector.feed)
    collector.step()
    time.sleep(SETTLE_S)
    while True:
        page = looks.page(width)
        shown = collector.step()
        put(page, shown, NO_CURSOR)
        for line in page.lines:
            print(looks.cleaned(line).plain.rstrip())
        if args.once or not args.plain:
            return OK if shown.processes else _nobody(shown)
        print(looks.rule(width), flush=True)
        time.sleep(args.every)


def _nobody(shown: Snapshot) -> int:
    """Say beside the page that there was no engine to show."""
    where = shown.remark or f"no engine records on {shown.source}"
    say(f"kvscope: {where}; `kvscope doctor` says what keeps one from it")
    return NOTHING


def _await(feed: Feed) -> None:
    """A page says what there is: a recording is gone through before, a far host heard of."""
    from kvscope.live.feed import Coming

    if isinstance(feed, Coming):
        feed.wait()


def looks_of(args: argparse.Namespace) -> Looks:
    """What this terminal can show."""
    from kvscope.analysis.render.looks import Looks

    utf = (sys.stdout.encoding or "ascii").lower().startswith("utf")
    return Looks(ascii_only=args.plain or not utf, colour=not (args.plain or os.environ.get("NO_COLOR")))


def _width() -> int:
    told = os.environ.get("COLUMNS", "")
    if told.isdigit() or sys.stdout.isatty():
        columns = int(told) if told.isdigit() else os.get_terminal_size().columns
        return min(WIDEST, max(NARROWEST, columns))
    return PIPE_WIDTH

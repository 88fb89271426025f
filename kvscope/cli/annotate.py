"""`kvscope annotate`: incidents and deployments, marked on the dashboards."""

from __future__ import annotations

import argparse
import time
from datetime import datetime

from kvscope.cli.durations import seconds
from kvscope.cli.grafana_arguments import add_grafana, grafana
from kvscope.cli.outcome import OK
from kvscope.model.errors import InputError

HELP = "mark an incident or a deployment on the dashboards in Grafana"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What, when, and where."""
    parser.add_argument("kind", choices=("incident", "deployment"), help="what it is")
    parser.add_argument("text", help="what is to be read at the mark")
    add_grafana(parser)
    parser.add_argument("--at", type=instant, metavar="TIME", help="when it was or began (default: now)")
    parser.add_argument("--until", type=instant, metavar="TIME", help="when it ended (default: it was an instant)")
    parser.add_argument("--tag", action="append", default=[], help="one more tag; may be given several times")


def instant(text: str) -> float:
    """`2026-11-30T02:11:40Z`, without a zone local time, or `10m ago` -> seconds since 1970."""
    if text.endswith("ago"):
        return time.time() - seconds(text.removesuffix("ago"))
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        problem = f"{text!r} is no time; write it like 2026-11-30T02:11:40 or 10m ago"
        raise argparse.ArgumentTypeError(problem) from None


def run(args: argparse.Namespace) -> int:
    """Put the mark there, once."""
    begin = time.time() if args.at is None else args.at
    if not args.text.strip():
        raise InputError("the text is empty: say what happened")
    if args.until is not None and args.until < begin:
        raise InputError("--until is before --at: an incident ends after it began")
    from kvscope.dashboards.server.marking import Mark, mark

    end = None if args.until is None else round(args.until * 1000)
    with grafana(args) as server:
        put = mark(server, Mark(args.kind, args.text, round(begin * 1000), end, tuple(args.tag)))
    print(f"{args.kind} {'marked' if put else 'marked already'} on {server.url}")
    return OK

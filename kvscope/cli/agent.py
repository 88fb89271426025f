"""`kvscope agent`: what this host's engines record, sent to one aggregator. Needs the standard library only."""

from __future__ import annotations

import argparse
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from kvscope.cli.durations import seconds
from kvscope.cli.ids_arguments import add_ids, wanted_ids
from kvscope.cli.outcome import OK, say
from kvscope.cli.positive import above_zero
from kvscope.cli.record import stopping
from kvscope.cli.sizes import size
from kvscope.cli.sources_arguments import named
from kvscope.model.counting import count
from kvscope.model.errors import InputError

if TYPE_CHECKING:
    from kvscope.agents.agent import Done

HELP = "send what this host's engines record to `kvscope serve --take`"

SPOOL_MB, LEAST_MB = 256, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to, as whom, and what is kept meanwhile."""
    span, amount = above_zero(seconds), above_zero(size)
    parser.add_argument("--to", required=True, metavar="URL", help="the aggregator: https://HOST:7878")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="holds the token that the aggregator asks for")
    parser.add_argument("--ca", type=Path, metavar="FILE", help="PEM of who signed its certificate (the system's)")
    parser.add_argument(
        "--spool", type=Path, required=True, metavar="DIR", help="where batches lie until they are taken"
    )
    parser.add_argument(
        "--spool-size", type=amount, metavar="BYTES", help=f"what they may take; the oldest go (default: {SPOOL_MB}MB)"
    )
    parser.add_argument("--name", default=socket.gethostname(), help="what this host is called (default: %(default)s)")
    parser.add_argument(
        "--run-dir", type=lambda text: Path(named(text)), action="append", metavar="DIR",
        help="where rings are; repeatable (default: all there are)",
    )  # fmt: skip
    parser.add_argument(
        "--run-dirs-in", type=lambda text: Path(named(text)), action="append", metavar="DIR",
        help="the same of every folder in DIR",
    )  # fmt: skip
    parser.add_argument("--interval", type=span, default=0.25, metavar="TIME", help="between looks at them (250ms)")
    add_ids(parser)


def run(args: argparse.Namespace) -> int:
    """Send until told to stop."""
    from kvscope.agents.agent import Agent, Plan
    from kvscope.agents.spool import LEAST_BYTES, SPOOL_BYTES, Spool
    from kvscope.agents.transport import Http
    from kvscope.live.access import secret_of

    most = args.spool_size or SPOOL_BYTES
    if most < LEAST_BYTES:
        raise InputError(f"--spool-size {most} is too small; give {LEAST_MB}MB or more")
    transport = Http(args.to, secret_of(args.token_file, "--token-file", "a token"), args.ca)
    spool = Spool(args.spool, most)
    run_dirs, parents = tuple(args.run_dir or ()), tuple(args.run_dirs_in or ())
    plan = Plan(run_dirs, parents, args.name, args.interval, wanted_ids(args))
    try:
        with stopping(None) as stop:
            waiting = f", {count(spool.waiting, 'batch', 'batches')} of before waiting" if spool.waiting else ""
            say(f"kvscope: sending to {args.to} as {args.name}{waiting}; Ctrl-C ends it")
            done = Agent(plan, spool, transport, say).run(stop)
    finally:
        transport.close()
        spool.close()
    say(sentence(done))
    return OK


def sentence(done: Done) -> str:
    """Events, losses, batches."""
    lost = f"{done.lost:,} overwritten before they were read" if done.lost else "none lost"
    told = f"{count(done.events, 'event')} read, {lost}; {count(done.taken, 'batch', 'batches')} taken"
    for number, what in (
        (done.waiting, "waiting on disk"),
        (done.dropped, "dropped for want of room"),
        (done.refused, "refused"),
    ):
        told += f", {number:,} {what}" if number else ""
    return told

"""`kvscope record`: what live engines record, kept in a file."""

from __future__ import annotations

import argparse
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from kvscope.cli.durations import seconds
from kvscope.cli.outcome import OK, say
from kvscope.cli.sources_arguments import add_run_dir

if TYPE_CHECKING:
    from kvscope.sources.recorder import Recorded

HELP = "keep what this host's engines record in a file"

EVERY_S = 5.0
"""Between two lines of progress."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """-o FILE, how long, how often."""
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="the recording to write")
    parser.add_argument(
        "--for", type=seconds, dest="span", metavar="TIME", help="stop after, e.g. 30s (default: Ctrl-C)"
    )
    parser.add_argument(
        "--interval", type=seconds, default=0.25, metavar="TIME", help="between two looks at the rings (default: 250ms)"
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it is there")
    add_run_dir(parser)


def run(args: argparse.Namespace) -> int:
    """Record until told to stop; 0 also when nothing came."""
    from kvscope.sources.recorder import record_until

    with stopping(args.span) as stop:
        done = record_until(stop, args.run_dir, args.output, args.interval, args.force, _Progress(args.run_dir))
    for fault in done.faults:
        say(f"kvscope: {fault}")
    say(f"{args.output}: {sentence(done)}; next: kvscope report {args.output}")
    return OK


@contextmanager
def stopping(span: float | None) -> Iterator[threading.Event]:
    """An event that Ctrl-C, SIGTERM, a closed terminal or the end of `span` seconds sets."""
    stop = threading.Event()

    def asked(number: int, frame: FrameType | None) -> None:
        stop.set()

    before = {each: signal.signal(each, asked) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    timer = threading.Timer(span or 0, stop.set)
    timer.daemon = True
    if span is not None:
        timer.start()
    try:
        yield stop
    finally:
        timer.cancel()
        for each, handler in before.items():
            signal.signal(each, handler)


class _Progress:
    """Says how far a recording has come, now and then."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._next = 0.0

    def __call__(self, so_far: Recorded) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY_S
        if so_far.processes:
            say(sentence(so_far))
        else:
            say(f"no engine records in {self._run_dir} yet; waiting (`kvscope doctor` says what keeps one from it)")


def sentence(done: Recorded) -> str:
    """Events, losses, size."""
    size = f"{done.size_bytes / 1e6:.1f} MB" if done.size_bytes >= 1e5 else f"{done.size_bytes / 1e3:.1f} kB"
    lost = f"{done.lost:,} overwritten before they were read" if done.lost else "none lost"
    return f"{done.events:,} events of {done.processes} processes in {done.seconds:.0f} s, {lost}, {size}"

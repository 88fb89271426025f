"""`kvscope record`: what live engines record, kept in a file, or in a folder that holds the last hours."""

from __future__ import annotations

import argparse
import shlex
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from kvscope.cli.durations import seconds
from kvscope.cli.ids_arguments import add_ids, wanted_ids
from kvscope.cli.outcome import OK, say
from kvscope.cli.positive import above_zero
from kvscope.cli.sizes import size
from kvscope.cli.sources_arguments import add_run_dir
from kvscope.cli.switching import NOTHING
from kvscope.model.amounts import in_bytes
from kvscope.model.counting import count
from kvscope.model.errors import InputError
from kvscope.model.invocation import command
from kvscope.sources.rotation import PART_BYTES, PART_S, Limits
from kvscope.sources.run_dirs import none_in

if TYPE_CHECKING:
    from kvscope.sources.recorder import Recorded

HELP = "keep what this host's engines record in a file, or in parts"

LEAST_PART, LEAST_QUOTA = 4_000, 1_000_000
"""Bytes. What a part repeats is some 6 kB."""
EVERY_S = 5.0
"""Between two lines of progress."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """-o FILE, how long, how often; in how large parts, and how many of them are kept."""
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="the recording to write; - is standard output"
    )
    parser.add_argument(
        "--for",
        type=seconds,
        dest="span",
        metavar="TIME",
        help="stop after, e.g. 30s (default: Ctrl-C); what the rings held before is kept too",
    )
    parser.add_argument(
        "--interval",
        type=above_zero(seconds),
        default=0.25,
        metavar="TIME",
        help="between two looks at the rings (default: 250ms)",
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it is there")
    add_ids(parser)
    add_run_dir(parser)
    _add_parts(parser)


def _add_parts(parser: argparse.ArgumentParser) -> None:
    parts = parser.add_argument_group(
        "in parts", "With any of these, FILE is a folder of parts, each of which can be read, copied and removed alone."
    )
    parts.add_argument(
        "--part-size",
        type=above_zero(size),
        metavar="BYTES",
        help=f"a part ends at this size (default: {PART_BYTES // 10**6}MB, or a quarter of the quota if that is less)",
    )
    span, amount = above_zero(seconds), above_zero(size)
    parts.add_argument("--part-age", type=span, metavar="TIME", help=f"or at this age (default: {PART_S / 60:.0f}m)")
    parts.add_argument("--quota", type=amount, metavar="BYTES", help="what all parts may take; the oldest are removed")
    parts.add_argument("--keep-for", type=span, metavar="TIME", help="remove parts that ended so long ago")


def run(args: argparse.Namespace) -> int:
    """Record until told to stop. 3: no process recorded anything."""
    from kvscope.sources.recorder import record_parts_until, record_until

    limits, ids, progress = limits_of(args), wanted_ids(args), _Progress(args.run_dir)
    with stopping(args.span) as stop:
        if limits:
            done = record_parts_until(stop, args.run_dir, args.output, limits, args.interval, progress, ids)
        else:
            done = record_until(stop, args.run_dir, args.output, args.interval, args.force, progress, ids)
    progress.say_faults(done)
    there = args.output.is_file() or args.output.is_dir()
    following = f"; next: {command()} report {shlex.quote(str(args.output))}" if there else ""
    if not done.processes:
        why = f"{none_in(args.run_dir)} (`kvscope doctor` says what keeps one from it)"
        say(f"{args.output}: nothing was recorded: {why}")
        return NOTHING
    before = f", of which {done.before:,} were in the rings before" if done.before else ""
    say(f"{args.output}: {sentence(done, before)}{following}")
    return OK


def limits_of(args: argparse.Namespace) -> Limits | None:
    """How it is to be cut into parts; None: it is not. InputError: that cannot be."""
    given = {
        "part_bytes": args.part_size,
        "part_s": args.part_age,
        "quota": args.quota,
        "keep_s": args.keep_for,
    }
    wanted = {name: value for name, value in given.items() if value is not None}
    if not wanted:
        return None
    if args.force:
        raise InputError("--force replaces a file; a folder of parts is gone on with, and nothing in it is replaced")
    _check(args.part_size, args.quota)
    return Limits(**wanted)


def _check(part: int | None, quota: int | None) -> None:
    if part is not None and part < LEAST_PART:
        raise InputError(f"--part-size {part} is too small; give {LEAST_PART // 10**3}kB or more")
    if quota is not None and quota < LEAST_QUOTA:
        raise InputError(f"--quota {quota} is too small; give {LEAST_QUOTA // 10**6}MB or more")
    if part is not None and quota is not None and quota < part:
        raise InputError(f"--quota {quota} is less than one part of --part-size {part}; give more, or smaller parts")


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
        self._told = set[str]()

    def say_faults(self, so_far: Recorded) -> None:
        """Say each once, when it comes."""
        for fault in so_far.faults:
            if fault not in self._told:
                self._told.add(fault)
                say(f"kvscope: {fault}")

    def __call__(self, so_far: Recorded) -> None:
        self.say_faults(so_far)
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY_S
        if so_far.processes:
            say(sentence(so_far))
        if not so_far.living:
            why = "`kvscope doctor` says what keeps one from it"
            say(f"{none_in(self._run_dir)}; waiting for one, Ctrl-C ends it ({why})")


def sentence(done: Recorded, before: str = "") -> str:
    """Events, losses, size. before: what to say of the events"""
    lost = f"{done.lost:,} overwritten before they were read" if done.lost else "none lost"
    if done.earlier:
        lost = f"{lost}, {done.earlier:,} older ones were overwritten before it began"
    processes = count(done.processes, "process", "processes")
    told = f"{count(done.events, 'event')} of {processes} in {done.seconds:.0f} s{before}, {lost}"
    told = f"{told}, {in_bytes(done.size_bytes)}"
    if done.removed:
        told = f"{told} written, {count(done.removed, 'part')} removed since, {in_bytes(done.kept_bytes)} kept"
    return f"{told}, {count(done.unremoved, 'part')} could not be removed" if done.unremoved else told

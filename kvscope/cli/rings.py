"""`kvscope rings`: the ring files of this host, and removing those of dead processes."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from kvscope.cli.durations import seconds, shown
from kvscope.cli.outcome import BAD_INPUT, OK, say
from kvscope.cli.sources_arguments import add_run_dir
from kvscope.cli.switching import NOTHING
from kvscope.cli.tables import plain
from kvscope.model.counting import count
from kvscope.model.errors import InputError
from kvscope.probe.control import remove_dead
from kvscope.probe.reader import RingError, RingFile, list_rings
from kvscope.probe.ring import boot_id

HELP = "list the processes that record here; remove what dead ones left"

HEADINGS = ("engine", "pid", "state", "threads", "held", "overwritten", "refused", "errors", "size", "age", "note")
NUMBERS = frozenset(("pid", "threads", "held", "overwritten", "refused", "errors", "size", "age"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to remove, if anything."""
    parser.add_argument("--clean", action="store_true", help="remove the rings of dead processes")
    parser.add_argument(
        "--older-than", type=seconds, default=0.0, metavar="TIME", help="with --clean: only if dead for, e.g. 1h"
    )
    add_run_dir(parser)


def run(args: argparse.Namespace) -> int:
    """0: something was listed or removed, 2: a file could not be removed, or judged, 3: there is nothing."""
    try:
        return _clean(args.run_dir, args.older_than) if args.clean else _list(args.run_dir)
    except RingError as error:
        raise InputError(str(error)) from None


def _clean(run_dir: Path, older_than: float) -> int:
    faults: list[RingError] = []
    removed = remove_dead(run_dir, older_than, faults)
    for path in removed:
        print(path)
    for fault in faults:
        say(f"kvscope: {fault}")
    say(f"kvscope: {count(len(removed), 'ring file')} of dead processes removed from {run_dir}")
    return BAD_INPUT if faults else OK


def _list(run_dir: Path) -> int:
    faults: list[RingError] = []
    rows: list[tuple[str, ...]] = []
    for ring in list_rings(run_dir, faults):
        try:
            rows.append(_row(ring))
        except RingError as error:
            faults.append(error)
    if rows:
        print(plain(HEADINGS, rows, NUMBERS))
    for fault in faults:
        say(f"kvscope: {fault}")
    if not rows and not faults:
        say(f"kvscope: no rings in {run_dir}; `kvscope doctor` says what keeps an engine from recording")
        return NOTHING
    return OK


def _row(ring: RingFile) -> tuple[str, ...]:
    header, alive = ring.header, ring.alive
    capacities = [(segment.events.head(), segment.events.capacity) for segment in ring.segments()]
    published, held = sum(head for head, _ in capacities), sum(min(pair) for pair in capacities)
    age = time.monotonic() - header.monotonic_ns / 1e9 if header.boot_id == boot_id() else -1
    return (
        ring.engine or "-",
        str(header.pid),
        "dead" if not alive else "on" if header.on else "off",
        str(len(capacities)),
        f"{held:,}",
        f"{published - held:,}",
        f"{header.refused:,}",
        f"{header.errors:,}",
        f"{header.file_bytes / 2**20:.1f} MiB",
        shown(age) if age >= 0 else "-",
        "; ".join(filter(None, (header.self_off and f"switched itself off: {header.self_off}", header.note))) or "-",
    )

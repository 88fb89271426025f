"""`kvscope doctor`: which vLLM processes of this host record, and what keeps the others from it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvscope.cli.outcome import OK, say
from kvscope.cli.sources_arguments import add_run_dir
from kvscope.model.controls import on_one_line, seen
from kvscope.model.counting import count
from kvscope.model.errors import InputError

if TYPE_CHECKING:
    from kvscope.analysis.health import Diagnosis
    from kvscope.analysis.host import HostSeen
    from kvscope.analysis.sighting import RingSeen

HELP = "which vLLM processes here record, and what keeps the others from it"

SOMETHING_WRONG = 1
NOTHING_FOUND = 3
VERSION = 1
"""Of the JSON."""
MIB = 1 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to look, and how to answer."""
    parser.add_argument("--json", action="store_true", help="answer as JSON")
    parser.add_argument("--proc", type=Path, default=Path("/proc"), metavar="DIR", help="where the host's /proc is")
    add_run_dir(parser)


def run(args: argparse.Namespace) -> int:
    """0: all record, 1: something does not or not yet, 3: there is no vLLM process."""
    from kvscope.analysis.host import look_over

    if not args.proc.is_dir():
        raise InputError(f"there is no directory {args.proc}; name where the host's /proc is, or leave --proc out")
    host = look_over(args.run_dir, args.proc)
    print(json.dumps(as_json(host), indent=2) if args.json else seen("\n".join(as_text(host))))
    if not host.diagnoses:
        say(
            f"kvscope: no vLLM process here, and {host.remark}; start an engine, or name its --run-dir or --proc if it"
            " lives in another container"
        )
        return NOTHING_FOUND
    return OK if all(each.good for each in host.diagnoses) else SOMETHING_WRONG


def as_json(host: HostSeen) -> dict[str, Any]:
    """The answer for programs."""
    return {
        "version": VERSION,
        "host": {
            **asdict(host.clock),
            "run_dir": asdict(host.place),
            "dead_rings": host.dead,
            "remark": host.remark,
            "finding": host.finding and asdict(host.finding),
        },
        "processes": [_process_json(each) for each in host.diagnoses],
    }


def _process_json(found: Diagnosis) -> dict[str, Any]:
    answer = asdict(found)
    sighting = answer.pop("sighting")
    process, ring = sighting["process"], sighting["ring"]
    return answer | {
        "good": found.good,
        "ring": ring,
        "run_dir": sighting["place"],
        # Its environment may hold secrets.
        "process": process and {name: str(value) for name, value in process.items() if name not in _PRIVATE},
    }


_PRIVATE = ("environ", "command")


def as_text(host: HostSeen) -> Iterator[str]:
    """The answer for people."""
    free = "" if host.place.free_bytes is None else f", {host.place.free_bytes / MIB:,.0f} MiB free"
    yield on_one_line(f"clock {host.clock.source or 'unknown'}; looked for rings in {host.place.path}{free}")
    if host.remark and host.diagnoses:
        yield host.remark
    if host.finding:
        yield f"{host.finding.what}\n  -> {host.finding.do}"
    if host.dead:
        dead = count(host.dead, "dead process", "dead processes")
        yield f"{dead} left rings there: `kvscope rings --clean` removes them"
    for found in host.diagnoses:
        yield ""
        yield f"{found.engine}  {found.role}  pid {found.pid}  {found.state.upper()}"
        yield from (f"    {line}" for line in _details(found))
    if host.diagnoses:
        yield ""
        yield _verdict(host)


def _verdict(host: HostSeen) -> str:
    good = sum(each.good for each in host.diagnoses)
    starting = sum(each.starting for each in host.diagnoses)
    told = f"as it should be: {good} of {count(len(host.diagnoses), 'vLLM process', 'vLLM processes')}"
    return f"{told}; still starting: {starting}" if starting else told


def _details(found: Diagnosis) -> Iterator[str]:
    for finding in found.findings:
        yield finding.what
        yield f"  -> {finding.do}"
    if found.versions:
        yield ", ".join(f"{name} {value}" for name, value in found.versions.items())
    if found.sighting.ring and found.sighting.ring.header:
        yield from _ring_lines(found.sighting.ring)
    if found.wall_moved_ns is not None:
        yield f"wall clock moved {found.wall_moved_ns / 1e6:+.1f} ms since it started to record"


def _ring_lines(ring: RingSeen) -> Iterator[str]:
    header = ring.header
    assert header is not None
    overwritten = sum(thread.published - thread.held for thread in ring.threads)
    yield (
        f"rings in {Path(ring.path).parent}: {header.file_bytes / MIB:.1f}"
        f" of at most {header.stated_bytes / MIB:.1f} MiB,"
        f" {count(sum(thread.held for thread in ring.threads), 'event')} held, {overwritten:,} overwritten,"
        f" {header.refused:,} refused, {count(header.errors, 'error')}"
    )
    for thread in ring.threads:
        yield f"  {thread.role:<9}  {thread.held:>7,} of {thread.capacity:>7,}  {thread.name}"

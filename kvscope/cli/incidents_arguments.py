"""The arguments by which `kvscope serve` is told to keep the last minutes, and when to save them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvscope.cli.durations import seconds
from kvscope.cli.outcome import say
from kvscope.cli.sizes import size
from kvscope.live.wire import TRIGGER
from kvscope.model.errors import InputError

if TYPE_CHECKING:
    from kvscope.incidents.flight import Flight
    from kvscope.incidents.saving import Sample

KEEP_S = 300.0
LEAST_BYTES = 1_000_000
_NEEDED = ("keep", "keep_bytes", "trigger", "before", "after", "pause", "quota", "stacks")
"""Arguments that mean nothing without a folder to save into."""


def add_incidents(parser: argparse.ArgumentParser) -> None:
    """What to keep, what to be woken by, and where to save it."""
    group = parser.add_argument_group(
        "incidents",
        f"Keep the last minutes in memory; save them with what follows on a trigger, on SIGUSR1, or on POST {TRIGGER}.",
    )
    group.add_argument(
        "--save-to", type=Path, metavar="DIR", help="save incidents there, a folder each; switches it on"
    )
    group.add_argument("--keep", type=seconds, metavar="TIME", help="what memory holds (default: 5m)")
    group.add_argument("--keep-bytes", type=size, metavar="BYTES", help="as far as this holds it (default: 64MB)")
    group.add_argument(
        "--trigger",
        action="append",
        metavar="WHAT",
        help="dispatch>200ms, coordination>500ms, ttft>2s, 'p95(dispatch)>200ms/30s', failed, failed:lease_expired;"
        " may be repeated",
    )
    group.add_argument("--before", type=seconds, metavar="TIME", help="save so long before (default: 60s)")
    group.add_argument("--after", type=seconds, metavar="TIME", help="and so long after (default: 30s)")
    group.add_argument("--pause", type=seconds, metavar="TIME", help="between two by triggers (default: 10m)")
    group.add_argument("--quota", type=size, metavar="BYTES", help="what DIR may take; the oldest go (default: 1GB)")
    group.add_argument("--stacks", action="store_true", default=None, help="sample stacks from the trigger on")


def flight_of(args: argparse.Namespace) -> Flight | None:
    """What keeps and saves; None: nothing is to be kept. InputError: what was given does not fit together."""
    given = {name: value for name in _NEEDED if (value := getattr(args, name)) is not None}
    if args.save_to is None:
        if given:
            first = f"--{next(iter(given)).replace('_', '-')}"
            raise InputError(f"{first} is for incidents, and nothing says where to save them; add --save-to DIR")
        return None
    return _made(args, given)


def _made(args: argparse.Namespace, given: dict[str, Any]) -> Flight:
    from kvscope.incidents.flight import BEFORE_S, Flight, Plan
    from kvscope.incidents.folder import QUOTA, Folder
    from kvscope.incidents.memory import MOST_BYTES, Memory
    from kvscope.incidents.triggers import parsed

    triggers = tuple(parsed(text) for text in given.get("trigger", ()))
    keep, most = given.get("keep", KEEP_S), given.get("keep_bytes", MOST_BYTES)
    before = given.get("before", min(BEFORE_S, keep))
    if before > keep:
        raise InputError(f"--before {before:g}s is more than --keep {keep:g}s holds; keep more, or save less")
    if min(most, given.get("quota", QUOTA)) < LEAST_BYTES:
        raise InputError(f"--keep-bytes and --quota take {LEAST_BYTES // 10**6}MB or more")
    spans = {f"{name}_s": given[name] for name in ("after", "pause") if name in given}
    sample = _sample(args) if args.stacks else None
    folder = Folder(args.save_to, given.get("quota", QUOTA))
    return Flight(Memory(keep, most), folder, Plan(triggers, before, **spans), say, sample)


def _sample(args: argparse.Namespace) -> Sample:
    from kvscope.stacks.sampler import Sampler
    from kvscope.stacks.spy import found
    from kvscope.stacks.targets import recording_in

    found()  # says now that it is not there

    def sample(path: Path) -> Sampler:
        return Sampler(recording_in(args.run_dir), path)

    return sample

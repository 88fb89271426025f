"""The arguments by which `kvscope serve` is told to keep the last minutes, and when to save them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvscope.cli.durations import seconds, shown
from kvscope.cli.ids_arguments import add_ids, wanted_ids
from kvscope.cli.outcome import say
from kvscope.cli.sizes import size
from kvscope.cli.sources_arguments import named
from kvscope.live.wire import TRIGGER
from kvscope.model.errors import InputError
from kvscope.probe.ids import KEEP

if TYPE_CHECKING:
    from kvscope.incidents.flight import Flight
    from kvscope.incidents.saving import Sample
    from kvscope.incidents.triggers import Trigger

KEEP_S, LEAST_KEEP_S = 300.0, 1.0
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
        "--save-to",
        type=lambda text: Path(named(text)),
        metavar="DIR",
        help="save incidents there, a folder each; switches it on",
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
    add_ids(group)


def flight_of(args: argparse.Namespace) -> Flight | None:
    """What keeps and saves; None: nothing is to be kept. InputError: what was given does not fit together."""
    given = {name: value for name in _NEEDED if (value := getattr(args, name)) is not None}
    if args.save_to is None:
        hidden = ["ids"] if args.ids != KEEP or args.ids_key is not None else []
        if needless := [*given, *hidden]:
            first = f"--{needless[0].replace('_', '-')}"
            raise InputError(f"{first} is for incidents, and nothing says where to save them; add --save-to DIR")
        return None
    return _made(args, given)


def _made(args: argparse.Namespace, given: dict[str, Any]) -> Flight:
    from kvscope.incidents.flight import BEFORE_S, Flight, Plan
    from kvscope.incidents.folder import QUOTA, Folder
    from kvscope.incidents.memory import MOST_BYTES, Memory
    from kvscope.incidents.triggers import parsed

    keep, most = given.get("keep", KEEP_S), given.get("keep_bytes", MOST_BYTES)
    before = given.get("before", min(BEFORE_S, keep))
    _check(given, keep, before)
    triggers = tuple(_within(parsed(text), keep) for text in dict.fromkeys(given.get("trigger", ())))
    spans = {f"{name}_s": given[name] for name in ("after", "pause") if name in given}
    plan = Plan(triggers, before, **spans, ids=wanted_ids(args))
    if args.save_to.resolve() == args.run_dir.resolve():
        raise InputError(f"--save-to {args.save_to}: that is where the rings are, in memory; name another folder")
    sample = _sample(args) if args.stacks else None
    return Flight(Memory(keep, most), Folder(args.save_to, given.get("quota", QUOTA)), plan, say, sample)


def _check(given: dict[str, Any], keep: float, before: float) -> None:
    """InputError: nothing could be saved so."""
    if keep < LEAST_KEEP_S:
        raise InputError(f"--keep {keep:g}s is too short; give {LEAST_KEEP_S:g}s or more, such as 5m")
    if before > keep:
        raise InputError(f"--before {before:g}s is more than --keep {keep:g}s holds; keep more, or save less")
    if before == given.get("after") == 0:
        raise InputError("--before and --after are both 0: nothing would be saved; give one of them a length")
    for name in ("keep_bytes", "quota"):
        if (value := given.get(name)) is not None and value < LEAST_BYTES:
            raise InputError(f"--{name.replace('_', '-')} {value} is too small; give {LEAST_BYTES // 10**6}MB or more")


def _within(trigger: Trigger, keep: float) -> Trigger:
    """InputError: it looks at more than is kept, so that what is saved would not show why."""
    window = trigger.window_ns / 1e9
    if window > keep:
        raise InputError(
            f"--trigger {trigger.text!r}: its span of {shown(window)} is longer than --keep {keep:g}s holds;"
            f" keep more, or end it with a shorter one, such as /{min(keep, 30):g}s"
        )
    return trigger


def _sample(args: argparse.Namespace) -> Sample:
    from kvscope.stacks.sampler import Sampler
    from kvscope.stacks.spy import found
    from kvscope.stacks.targets import recording_in

    found()  # says now that it is not there

    def sample(path: Path) -> Sampler:
        return Sampler(recording_in(args.run_dir), path)

    return sample

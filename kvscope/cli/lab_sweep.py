"""`kvscope lab sweep`: the same loads under every mode, cell by cell, as one page with pictures."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kvscope.cli.outcome import say
from kvscope.model.counting import count

if TYPE_CHECKING:
    from kvscope.lab.sweeping.cell import Cell
    from kvscope.lab.sweeping.folder import Kept
    from kvscope.lab.sweeping.plan import SweepOptions
    from kvscope.sweep.measured import Measured
    from kvscope.sweep.results import Results

T = TypeVar("T", int, float)
PAGE, MARKDOWN, DOCUMENT = "report.html", "report.md", "report.json"


def describe(parser: argparse.ArgumentParser) -> None:
    """What is swept, on what, where to."""
    parser.usage = "kvscope lab sweep [OPTIONS]"
    parser.add_argument("--shape", choices=("controlled", "production"), default="controlled")
    parser.add_argument("--modes", metavar="LIST", help="of push-early,push-sequential,pull (default: all)")
    parser.add_argument("--input-tokens", type=_integers, default=(), metavar="LIST", help="prompt lengths: 300,1000")
    parser.add_argument("--shares", type=_numbers, metavar="LIST", help="rates, of measured capacity: 0.3,0.6,0.9")
    parser.add_argument("--rates", type=_numbers, metavar="LIST", help="requests per second, in place of shares")
    parser.add_argument("--requests", type=int, metavar="N", help="of each cell (default: 60)")
    parser.add_argument("--output-tokens", type=int, metavar="N", help="of each answer (default: 16)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", default="", metavar="URL", help="a router in front of engines that already run")
    parser.add_argument("--run-dir", type=Path, metavar="DIR", help="where the target's rings are")
    parser.add_argument("--model", default="", metavar="NAME", help="for targets that want one")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="a folder to begin, or to go on in")


def run(args: argparse.Namespace) -> int:
    """Measure what is not measured yet, and write the pages after every cell."""
    from kvscope.lab import progress
    from kvscope.lab.sweeping.drive import Sweep
    from kvscope.lab.sweeping.folder import default_folder, opened
    from kvscope.lab.sweeping.plan import cells

    options, rings = _options(args), _rings(args)
    known: dict[str, Measured] = {}
    with opened(args.output or default_folder(options), options) as kept, progress.shown(args.plain) as shown:
        results = write(kept, known)
        if results.cells:
            say(f"{kept.folder}: {len(results.cells)} of {count(len(cells(options)), 'cell')} done before")

        def measured(_: Cell) -> None:
            write(kept, known)

        sweep = Sweep(kept, shown, measured, args.python)
        try:
            sweep.run(rings)
        except BaseException:
            shown.drop()
            _tell_kept(kept, sweep.left)
            raise
        print("".join(_markdown(write(kept, known))), end="")
    say(f"page    {kept.folder / PAGE}, beside it {MARKDOWN}, {DOCUMENT} and each cell's recording")
    return 0


def write(kept: Kept, known: dict[str, Measured]) -> Results:
    """The pages of what is done; `known` keeps what was read for the next time."""
    from kvscope.export.making import write_whole
    from kvscope.sweep.document import sweep_document
    from kvscope.sweep.render.page import page
    from kvscope.sweep.results import gather

    results = gather(kept, known)
    for name, pieces in ((PAGE, page), (MARKDOWN, _markdown), (DOCUMENT, sweep_document)):
        write_whole(kept.folder / name, pieces(results))
    return results


def _markdown(results: Results) -> list[str]:
    from kvscope.sweep.render.markdown import markdown

    return list(markdown(results))


def _tell_kept(kept: Kept, left: Sequence[Cell]) -> None:
    from kvscope.lab.sweeping.plan import cells

    whole = cells(kept.options)
    say(f"kept    {len(whole) - len(left)} of {count(len(whole), 'cell')} in {kept.folder}; the same command goes on")


def _options(args: argparse.Namespace) -> SweepOptions:
    from kvscope.lab.sweeping.plan import SweepOptions
    from kvscope.model.errors import InputError

    if args.target and args.modes is not None:
        raise InputError("--modes is for pairs of our own; a --target hands over as it does")
    if args.shares is not None and args.rates is not None:
        raise InputError("--shares and --rates both say how much is sent; choose one")

    given = {
        "modes": tuple(name.strip() for name in args.modes.split(",")) if args.modes is not None else None,
        "shares": args.shares,
        "rates": args.rates,
        "requests": args.requests,
        "output_tokens": args.output_tokens,
    }
    wishes = {name: value for name, value in given.items() if value is not None}
    target = args.target.rstrip("/").removesuffix("/v1/completions")
    fixed = {"shape": args.shape, "input_tokens": args.input_tokens, "seed": args.seed, "model": args.model}
    return SweepOptions(**fixed, **wishes, target=target).checked()


def _rings(args: argparse.Namespace) -> Path | None:
    """Where the target's rings are, if any are on this host. InputError: none are where they were said to be."""
    from kvscope.model.errors import InputError
    from kvscope.probe.ring import default_run_dir

    if args.run_dir is not None and not args.target:
        raise InputError("--run-dir is for the rings of a --target; a pair of its own has its own")
    folder: Path = args.run_dir or default_run_dir()
    if any(folder.glob("*.ring")):
        return folder
    if args.run_dir is not None:
        raise InputError(f"no rings in {folder}; leave --run-dir out for client-side figures only")
    return None


def _integers(text: str) -> tuple[int, ...]:
    return _listed(text, int, "whole numbers such as 300,1000")


def _numbers(text: str) -> tuple[float, ...]:
    return _listed(text, float, "numbers such as 0.3,0.6")


def _listed(text: str, kind: Callable[[str], T], what: str) -> tuple[T, ...]:
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of {what}") from None

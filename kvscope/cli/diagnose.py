"""`kvscope diagnose`: what went wrong in a recording, in the order of what it cost users."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kvscope.cli.progress import Progress
from kvscope.cli.sources_arguments import add_sources, named, run_dir_of
from kvscope.cli.terminal import add_looks, console_for, page_for, show
from kvscope.model.errors import InputError

if TYPE_CHECKING:
    from kvscope.diagnosis.evidence import Evidence
    from kvscope.diagnosis.finding import Diagnosis
    from kvscope.diagnosis.windows import Scale, Window

PATIENCE_S = 5.0
"""Before it is said how far it is."""
HELP = "what went wrong, since when, for whom, and what it is told from"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Sources, what to judge, beside what, how it is told."""
    add_sources(parser)
    parser.add_argument(
        "--from",
        dest="begin",
        metavar="TIME",
        help="judge what began from here on: 90s after the begin, or 02:11:40 (UTC)",
    )
    parser.add_argument("--to", dest="end", metavar="TIME", help="judge requests that began before this")
    parser.add_argument("--around", metavar="TIME", help="judge the half minute before and after this")
    parser.add_argument(
        "--baseline",
        type=named,
        metavar="FILE|A..B",
        help="what shows how it should be: another recording, or a stretch of this one"
        " (default: what came before, or before a change that is found)",
    )
    parser.add_argument("--slo", metavar="LIMITS", help="objectives to judge by: ttft=800ms")
    parser.add_argument("--paste", action="store_true", help="twelve lines for an incident channel")
    parser.add_argument("--json", action="store_true", help="everything as one JSON document")
    add_looks(parser)


def run(args: argparse.Namespace) -> int:
    """Go through it, compare, put the cases to it, tell."""
    if args.paste and args.json:
        raise InputError("--paste and --json: choose one")
    whole = _gathered(args.files, run_dir_of(args))
    scale = _scale(whole)
    found = _diagnosis(args, whole, scale, _judged(args, scale))
    if args.json:
        from kvscope.diagnosis.document import diagnosis_document

        print(diagnosis_document(found), end="")
        return 0
    return _tell(args, found)


def _diagnosis(args: argparse.Namespace, whole: Evidence, scale: Scale, judged: Window) -> Diagnosis:
    from kvscope.analysis.objectives import parse_objectives
    from kvscope.diagnosis.findings import diagnose
    from kvscope.diagnosis.windows import compare

    objectives = parse_objectives(args.slo) if args.slo is not None else None
    usual, usual_from = _usual(args, scale, judged)
    comparison = compare(whole, judged, usual)
    if not len(comparison.now):
        raise InputError("no request began in the time that is asked for; `kvscope report` says what time there is")
    return diagnose(whole, comparison, usual_from, objectives, scale.wall, scale.first)


def _gathered(files: Sequence[Path | str], run_dir: Path | str | None) -> Evidence:
    from kvscope.diagnosis.gathering import gather
    from kvscope.sources.whole import open_whole

    past = open_whole(files, run_dir, Progress("reading", PATIENCE_S))
    try:
        return gather(past, Progress("looking through it", PATIENCE_S))
    finally:
        past.close()


def _scale(whole: Evidence) -> Scale:
    """Where times are counted from, and the time of day there."""
    from kvscope.diagnosis.windows import Scale

    if not len(whole):
        raise InputError("there is no request in it to judge; record while requests are served (`kvscope record`)")
    return Scale(whole.first, whole.wall)


def _judged(args: argparse.Namespace, scale: Scale) -> Window:
    from kvscope.diagnosis.windows import AROUND_S, Window

    if args.around is not None:
        if args.begin is not None or args.end is not None:
            raise InputError("--around with --from or --to: choose one way to say when")
        middle = scale.instant(args.around, "--around")
        reach = round(AROUND_S * 1e9)
        return Window(middle - reach, middle + reach)
    begin = scale.instant(args.begin, "--from") if args.begin is not None else None
    end = scale.instant(args.end, "--to") if args.end is not None else None
    if begin is not None and end is not None and end <= begin:
        raise InputError(f"--to {args.end} is not after --from {args.begin}")
    return Window(begin, end)


def _usual(args: argparse.Namespace, scale: Scale, judged: Window) -> tuple[Window | Evidence | None, str]:
    from kvscope.diagnosis.windows import window_of

    if args.baseline is None:
        return None, "before that" if not judged.open else "the other side of the change"
    if ".." in args.baseline and "/" not in args.baseline:
        return window_of(args.baseline, scale, "--baseline"), f"from {args.baseline}"
    return _gathered([args.baseline], None), args.baseline


def _tell(args: argparse.Namespace, found: Diagnosis) -> int:
    from rich.text import Text

    from kvscope.cli.report import named_again
    from kvscope.diagnosis.render.page import put_diagnosis
    from kvscope.diagnosis.render.paste import paste

    console = console_for(args)
    page = page_for(console, args.plain or args.paste)
    if args.paste:
        page.lines += [Text(line) for line in paste(found)]
    else:
        put_diagnosis(page, found, named_again(args))
    show(console, page, args.plain or args.paste)
    return 0

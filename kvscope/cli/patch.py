"""`kvscope patch`: the instrumented build, on disk and for those who maintain it."""

import argparse
from pathlib import Path

from kvscope.vllm import authoring, patchset

HELP = "apply, revert, check, make or port the lines that instrument vLLM"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs of `kvscope patch`."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    make = verbs.add_parser("make", help="patches from an edited copy of vLLM")
    make.add_argument("--upstream", type=Path, required=True, metavar="DIR", help="vLLM as released")
    make.add_argument(
        "--edited",
        type=Path,
        required=True,
        metavar="DIR",
        help="a copy, perhaps partial, with lines added",
    )
    make.add_argument("--release", required=True, help="the release that DIR is, e.g. 0.32.0")
    make.set_defaults(call=_make)
    for verb in (make,):
        verb.add_argument(
            "--patches",
            type=Path,
            default=None,
            metavar="DIR",
            help="the patch folder (default: kvscope's)",
        )


def run(args: argparse.Namespace) -> int:
    """Exit code: 0 when all is well, 1 when something was found wanting."""
    code: int = args.call(args, args.patches or patchset.folder())
    return code


def _make(args: argparse.Namespace, root: Path) -> int:
    made = authoring.make(args.upstream, args.edited, args.release)
    patchset.store(root, args.release, made)
    for patch in made:
        print(f"{patch.path}: {sum(len(h.added) for h in patch.hunks)} lines in {root / patch.name}")
    return 0

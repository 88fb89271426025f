"""`kvscope share`: a recording that can be given away."""

from __future__ import annotations

import argparse
import shlex
import shutil
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kvscope.cli.endings import ended_by_signals
from kvscope.cli.outcome import OK, say
from kvscope.cli.sources_arguments import named
from kvscope.cli.tables import plain
from kvscope.model.amounts import in_bytes
from kvscope.model.errors import InputError
from kvscope.model.invocation import command
from kvscope.probe.ids import HASH, MODES, IdsError, read_key

if TYPE_CHECKING:
    from kvscope.sharing.share import Shared, Wishes

HELP = "make a recording that can be given away: nobody named, sizes rounded"

NARROWEST = 30
"""Columns of a text, however narrow the terminal."""
EVERY_S = 1.0
"""Between two lines of progress."""
KEEPABLE = ("model", "gpu")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """REC... -o FILE, and what is to stay."""
    parser.add_argument(
        "files", nargs="+", type=named, metavar="REC", help="recordings, or folders of one; into one file"
    )
    parser.add_argument("-o", "--output", type=named, required=True, metavar="FILE", help="the recording to give away")
    parser.add_argument(
        "--ids", choices=MODES, default=HASH, help="request ids: hashed, none, or as they are (default: %(default)s)"
    )
    parser.add_argument(
        "--key-file",
        type=named,
        metavar="FILE",
        help="hash and name with this key: recordings shared with it still join (default: a key that nobody keeps)",
    )
    parser.add_argument(
        "--keep", action="append", choices=KEEPABLE, default=[], help="leave the model's or the GPU's name as it is"
    )
    parser.add_argument("--keep-time", action="store_true", help="keep the time of day")
    parser.add_argument(
        "--stacks", action="store_true", help="with the stacks that lie in the folder; FILE is then a folder to make"
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it is there")


def run(args: argparse.Namespace) -> int:
    """Write it, then say what is still in it."""
    from kvscope.sharing.remains import HEADINGS, remains, warnings
    from kvscope.sharing.share import Wishes

    wishes = Wishes(args.ids, _secret(args.key_file), frozenset(args.keep), args.keep_time)
    with ended_by_signals():
        shared = _shared(args, wishes)
    print(plain(HEADINGS, list(_wrapped(remains(shared)))))
    print("\nWhat could still tell whose it is:")
    for warning in warnings(shared):
        print(f"  {warning}")
    for note in (*shared.notes, *_left_out(args)):
        say(f"kvscope: {note}")
    say(f"{args.output}: {in_bytes(shared.size)}; next: {command()} report {shlex.quote(args.output)}")
    return OK


def _wrapped(rows: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Rows that a terminal shows without breaking them."""
    first = max(len(what) for what, _ in rows) + 2
    width = max(shutil.get_terminal_size((100, 0)).columns - first, NARROWEST)
    for what, told in rows:
        begin, *rest = textwrap.wrap(told, width)
        yield what, begin
        yield from (("", line) for line in rest)


def _shared(args: argparse.Namespace, wishes: Wishes) -> Shared:
    from kvscope.sharing.folder import share_folder
    from kvscope.sharing.share import share

    if args.stacks:
        return share_folder(args.files, _output(args.output), wishes, _Progress())
    return share(args.files, _output(args.output), wishes, args.force, _Progress())


def _left_out(args: argparse.Namespace) -> Iterator[str]:
    from kvscope.sharing.folder import stacks_in

    if not args.stacks and (found := stacks_in(args.files)):
        yield f"{', '.join(map(str, found))} was left out; --stacks shares it, too"


def _secret(key_file: str | None) -> bytes | None:
    try:
        return read_key(Path(key_file)) if key_file else None
    except IdsError as error:
        raise InputError(str(error)) from None


def _output(name: str) -> Path:
    if name == "-":
        raise InputError("what is shared gets its name once it is whole, so it has to be a file; name one")
    return Path(name)


class _Progress:
    """Says how far it is, now and then."""

    def __init__(self) -> None:
        self._next = time.monotonic() + EVERY_S

    def __call__(self, share: float) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + EVERY_S
            say(f"{share:.0%}")

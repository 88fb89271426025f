"""The arguments by which verbs that record are told how to write request ids."""

from __future__ import annotations

import argparse
from pathlib import Path

from kvscope.cli.sources_arguments import named
from kvscope.model.errors import InputError
from kvscope.probe.ids import KEEP, MODES, Ids, IdsError, ids_of


def add_ids(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """--ids and --ids-key."""
    parser.add_argument(
        "--ids",
        choices=MODES,
        default=KEEP,
        help="request ids: as they are, hashed with a key, or under names that nobody can lead back (default: keep)",
    )
    parser.add_argument(
        "--ids-key",
        type=lambda text: Path(named(text)),
        metavar="FILE",
        help="the key for hash: recordings made with it join (default: one that nobody keeps)",
    )


def wanted_ids(args: argparse.Namespace) -> Ids | None:
    """How to write them; None: as they are. InputError: that cannot be."""
    try:
        return ids_of(args.ids, args.ids_key)
    except IdsError as error:
        raise InputError(str(error)) from None

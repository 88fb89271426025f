"""Which Grafana is meant, and who asks: what `kvscope dashboards push` and `kvscope annotate` have in common."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kvscope.model.errors import InputError
from kvscope.probe import regular

if TYPE_CHECKING:
    from kvscope.dashboards.server.connection import Grafana

MOST_BYTES = 10_000
"""No token is as long."""


def add_grafana(parser: argparse.ArgumentParser) -> None:
    """--url, --token or --token-file, --ca."""
    parser.add_argument("--url", required=True, help="address of Grafana, e.g. https://grafana.example")
    token = parser.add_mutually_exclusive_group(required=True)
    token.add_argument(
        "--token", help="token of a service account; others on this host can see it in the list of processes"
    )
    token.add_argument("--token-file", type=Path, metavar="FILE", help="a file that holds it")
    parser.add_argument("--ca", type=Path, metavar="FILE", help="who signed its certificate, in PEM")


def grafana(args: argparse.Namespace) -> Grafana:
    """A connection to it. InputError: what is wrong with it."""
    from kvscope.dashboards.server.connection import connect

    return connect(args.url, _token(args), args.ca)


def _token(args: argparse.Namespace) -> str:
    token = str(args.token if args.token is not None else _in_file(args.token_file)).strip()
    if not token or not token.isascii() or not token.isprintable():
        where = "--token" if args.token is not None else str(args.token_file)
        raise InputError(f"{where} holds no token: it is one word of letters, digits and underscores, like glsa_...")
    return token


def _in_file(path: Path) -> str:
    try:
        return regular.read(path, MOST_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise InputError(f"--token-file: cannot read {path}: {(error.strerror or str(error)).lower()}") from None

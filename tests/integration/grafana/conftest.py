"""A server that keeps to the recorded contract, and the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from kvscope.cli import main

from ..live.test_access import files
from .server import TOKEN, Standing

__all__ = ["files"]


@dataclass(frozen=True)
class Said:
    """What a command did."""

    code: int
    out: str
    err: str


Run = Callable[..., Said]


@pytest.fixture
def grafana() -> Iterator[Standing]:
    with Standing() as server:
        yield server
    assert server.faults == []


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], grafana: Standing) -> Run:
    """Runs `kvscope` with the server's address and a token, unless others are given."""

    def call(*words: str, url: str = "", token: str = TOKEN) -> Said:
        code = main([*words, "--url", url or grafana.url, "--token", token])
        return Said(code, *capsys.readouterr())

    return call

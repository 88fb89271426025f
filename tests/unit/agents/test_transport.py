"""Addresses and tokens that cannot be used, and an aggregator that does not answer, each in a sentence."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kvscope.agents.transport import Http, Undelivered
from kvscope.model.errors import InputError


@pytest.mark.parametrize(
    "url", ["", "host", "ftp://host", "http://", "https://host:99999", "http://host/path", "http://["]
)
def test_what_is_no_address_is_told_as_that(url: str) -> None:
    with pytest.raises(InputError, match="write it as https://HOST:7878"):
        Http(url)


def test_a_token_that_no_header_can_carry_is_refused_at_the_start() -> None:
    with pytest.raises(InputError, match="token"):
        Http("http://localhost", "schlüssel\n")


def test_a_file_of_certificates_that_is_none_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--ca"):
        Http("https://localhost", ca=tmp_path / "none.pem")


def test_nobody_there_and_somebody_else_there_are_told_apart() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(Undelivered, match="nothing listens"):
        Http(f"http://127.0.0.1:{port}").ask(b"")

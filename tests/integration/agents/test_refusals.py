"""What an aggregator refuses, and an agent: counted, said in a line, and the rest goes on. Real TLS."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kvscope.agents.wire import VERSION, sealed
from kvscope.probe.recording import FILE_HEADER, FILE_MAGIC

from ..live.conftest import until
from ..live.test_access import TOKEN, files, guarded, needs_openssl
from ..live.test_certificate import PAST, SOON, Make, made
from .conftest import Agent, Fleet

__all__ = ["files", "made"]
AGENT = {"name": "rogue", "boot_id": "none", "version": VERSION}
pytestmark = [needs_openssl, pytest.mark.slow]


@pytest.fixture
def guarded_fleet(fleet: Fleet, files: Path) -> Iterator[Fleet]:
    """An aggregator over TLS, an engine, and an agent that has what it needs."""
    served = fleet.serve(*guarded(files, "--token-file", str(files / "token")))
    fleet.port = served.port
    engine = fleet.engine("p0", "a")
    engine.tell("write 10")
    fleet.agent("a", "--token-file", str(files / "token"), "--ca", str(files / "cert.pem"), url=secure(fleet))
    until(lambda: told(fleet, files)["events"] == 10, "the agent's batch does not come")
    yield fleet
    engine.tell("write 10")
    until(lambda: fleet.counted()[0]["p0"] == 20, "the agent that did no wrong is harmed")


def secure(fleet: Fleet) -> str:
    return f"https://localhost:{fleet.port}"


def asked(fleet: Fleet, files: Path, method: str, path: str, body: bytes = b"", token: str = TOKEN) -> tuple[int, str]:
    context = ssl.create_default_context(cafile=files / "cert.pem")
    connection = http.client.HTTPSConnection("localhost", fleet.port, timeout=30, context=context)
    try:
        connection.request(method, path, body or None, {"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def told(fleet: Fleet, files: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(asked(fleet, files, "GET", "/healthz")[1])["agents"]
    return found


def refused(fleet: Fleet, files: Path, kind: str) -> Callable[[], bool]:
    return lambda: told(fleet, files)["refused"].get(kind, 0) > 0


def lines(fleet: Fleet, words: str) -> list[str]:
    """What the aggregator said with these words; it is ended for that."""
    return [line for line in fleet.servers[-1].end(signal.SIGTERM).splitlines() if words in line]


def test_an_agent_with_another_token_is_told_and_keeps_what_it_has(guarded_fleet: Fleet, files: Path) -> None:
    fleet = guarded_fleet
    (fleet.folder / "other").write_text("not-the-token-at-all")
    fleet.engine("d0", "b").tell("write 10")
    words = ("--token-file", str(fleet.folder / "other"), "--ca", str(files / "cert.pem"))
    agent = fleet.agent("b", *words, url=secure(fleet))
    assert "refuses the token" in agent.until_it_says("batches wait")
    until(refused(fleet, files, "token"), "it is not counted")
    agent.end()
    fleet.agent("b", "--token-file", str(files / "token"), "--ca", str(files / "cert.pem"), url=secure(fleet))
    until(lambda: told(fleet, files)["events"] == 20, "what it kept does not come")


def test_plain_text_to_a_port_with_tls_is_counted_and_said_once(guarded_fleet: Fleet, files: Path) -> None:
    fleet = guarded_fleet
    agent = fleet.agent("b")
    assert "is it https://?" in agent.until_it_says("batches wait")
    with socket.create_connection(("localhost", fleet.port), timeout=30) as plain:
        plain.sendall(b"POST /take HTTP/1.1\r\n\r\n")
        with suppress(ConnectionResetError):
            plain.recv(100)
    until(lambda: told(fleet, files)["refused"].get("plain_text", 0) > 1, "it is not counted")


ROGUE = [
    ("garbage", b"no recording at all"),
    ("garbage", sealed({"agent": AGENT}) + b"\x89KVP and then nothing that it should be"),
    ("garbage", sealed({"no": "envelope"})),
    ("version", sealed({"agent": AGENT | {"version": VERSION + 1}})),
    ("version", FILE_HEADER.pack(FILE_MAGIC, 77, False)),
]


def test_what_a_rogue_sends_is_refused(guarded_fleet: Fleet, files: Path) -> None:
    for kind, body in ROGUE:
        status, text = asked(guarded_fleet, files, "POST", "/take", body)
        assert status == 200
        answer = json.loads(text)
        assert answer["refused"]["kind"] == kind
        assert "taken" not in answer
    assert told(guarded_fleet, files)["refused"] == {"garbage": 3, "version": 2}


def test_somebody_else_s_engine_id_is_left_out_and_the_rest_of_the_host_is_taken(
    guarded_fleet: Fleet, files: Path
) -> None:
    fleet = guarded_fleet
    fleet.engine("p0", "b").tell("write 7")  # the engine id of host a's
    fleet.engine("d0", "b").tell("write 5")
    fleet.agent("b", "--token-file", str(files / "token"), "--ca", str(files / "cert.pem"), url=secure(fleet))
    until(lambda: told(fleet, files)["events"] == 15, "its other engine's events do not come")
    assert told(fleet, files)["events_of_others"] == 7
    (line,) = lines(fleet, "another agent")
    assert "p0-1" in line
    fleet.serve(*guarded(files, "--token-file", str(files / "token")))
    held, _ = fleet.counted()
    assert held == {"p0": 10, "d0": 5}


def test_a_certificate_that_has_ended_is_refused_by_the_agent(fleet: Fleet, made: Make) -> None:
    old = made(PAST, SOON)
    (fleet.folder / "token").write_text(TOKEN)
    words = ("--tls-cert", str(old), "--tls-key", str(old.parent / "key.pem"), "--token-file")
    fleet.serve(*words, str(fleet.folder / "token"))
    agent = Agent(secure(fleet), fleet.host("a"), "--ca", str(old))
    fleet.started.append(agent)
    line = agent.until_it_says("batches wait")
    assert "certificate" in line
    assert "expired" in line

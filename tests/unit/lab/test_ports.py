"""A port that was taken stays with whoever it was taken for."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from kvscope.lab.ports import HOST, Ports, free_ports


@pytest.fixture
def ports() -> Iterator[Ports]:
    taken = Ports()
    yield taken
    taken.close()


def test_ports_are_all_different(ports: Ports) -> None:
    assert len({*ports.take(40), *ports.take(40)}) == 80
    assert len(set(free_ports(40))) == 40


def test_a_server_listens_on_the_port_that_is_kept_for_it(ports: Ports) -> None:
    (port,) = ports.take(1)
    with socket.create_server((HOST, port)), socket.create_connection((HOST, port), timeout=10):
        pass


def test_nobody_else_gets_a_port_that_is_kept(ports: Ports) -> None:
    (port,) = ports.take(1)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((HOST, port))
    with socket.create_server((HOST, 0)) as server, socket.socket() as client:
        with pytest.raises(OSError, match="in use"):
            client.bind((HOST, port))
        client.connect(server.getsockname())


def test_a_server_outlives_the_keeping(ports: Ports) -> None:
    (port,) = ports.take(1)
    with socket.create_server((HOST, port)):
        ports.close()
        with socket.create_connection((HOST, port), timeout=10):
            pass
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((HOST, port))

"""A real collector: PyPI's `rotel`, a process of its own on loopback, which passes on what it gets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from kvscope.lab.ports import HOST, free_ports
from kvscope.lab.process import Process

READY_S = 30.0


@contextmanager
def rotel(onwards: str, folder: Path) -> Iterator[str]:
    """Its address inside the block. `onwards`: where it sends all it gets."""
    found = find_spec("rotel")
    if found is None or found.origin is None:
        pytest.skip("rotel is not made for this machine")
    http, grpc = free_ports(2)
    told = {
        "--otlp-http-endpoint": f"{HOST}:{http}",
        "--otlp-grpc-endpoint": f"{HOST}:{grpc}",
        "--exporter": "otlp",
        "--otlp-exporter-endpoint": onwards,
        "--otlp-exporter-protocol": "http",
        "--traces-batch-timeout": "200ms",
        "--pid-file": str(folder / "rotel.pid"),
        "--log-file": str(folder / "rotel.log"),
    }
    program = str(Path(found.origin).with_name("rotel-agent"))
    process = Process(
        "rotel", [program, "start", *(word for pair in told.items() for word in pair)], folder / "rotel.out"
    )
    process.start()
    try:
        process.wait_for(lambda: _listens(http), READY_S)
        yield f"http://{HOST}:{http}"
    finally:
        process.stop()


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((HOST, port)) == 0

"""Collectors that are none, and exports that somebody ends: one sentence, nothing half written, no waiting for ever."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvscope.cli import main
from kvscope.export.otlp import delivery as delivery_module

REAL = "docs/pictures/pull.kvs"


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_module, "PATIENCE_AT_FIRST_S", 0.2)
    monkeypatch.setattr(delivery_module, "WHOLE_S", 1.0)


@contextmanager
def answering(first: bytes, then: bytes) -> Iterator[str]:
    """A port that answers everybody with `first`, then with `then` again and again until the other side has gone."""
    ending = threading.Event()

    def answer(peer: socket.socket) -> None:
        with peer:
            try:
                peer.recv(65536)
                peer.sendall(first)
                while then and not ending.wait(0.05):
                    peer.sendall(then)
            except OSError:
                pass

    def accept() -> None:
        while True:
            try:
                peer, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(peer,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            ending.set()
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\n", b"X-More: 1\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
    ],
    ids=["body", "headers", "chunks", "no length"],
)
def test_an_answer_that_never_ends_is_not_waited_for(
    first: bytes, then: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(first, then) as url:
        assert main(["export", REAL, "--otlp", url]) == 2
    told = capsys.readouterr().err
    assert "no whole answer within 1 s" in told or "not as a web server does" in told


@pytest.mark.parametrize(
    "first", [b"220 smtp ready\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"]
)
def test_one_that_speaks_something_else_is_told_in_our_words(first: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(first, b"") as url:
        assert main(["export", REAL, "--otlp", url]) == 2
    *_, last = capsys.readouterr().err.splitlines()
    assert "answers, but not as a web server does" in last
    assert "smtp" not in last


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_what_somebody_ends_leaves_nothing_behind(number: signal.Signals, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "kvscope", "export", REAL, "--otlp", f"{tmp_path}/spans", "--jsonl", "-"]
    words += ["--parquet", f"{tmp_path}/tables", "--perfetto", f"{tmp_path}/trace"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.read(10)  # it is writing, and waits until more is read
    assert any(tmp_path.iterdir())
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert process.returncode == (130 if number == signal.SIGINT else 128 + number)
    assert b"Traceback" not in told
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []

"""What `kvscope dashboards push` says of an address where no Grafana can be talked to."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvscope.dashboards.server import connection

from .conftest import Run
from .server import Standing

ALL = ("dashboards", "push", "--prometheus", "http://prometheus:9090")


def test_nobody_there_is_said(run: Run) -> None:
    with Standing() as gone:
        url = gone.url
    said = run(*ALL, url=url)
    assert said.code == 2
    assert said.err == f"kvscope: nothing answers at {url}: is the address right, and Grafana running?\n"


@pytest.mark.parametrize("url", ["localhost:3000", "ftp://grafana", "http://"])
def test_an_address_that_is_none_is_refused(run: Run, url: str) -> None:
    said = run(*ALL, url=url)
    assert (said.code, said.err) == (2, f"kvscope: --url {url}: say http:// or https:// and the host of Grafana\n")


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("http://grafana:three", "port could not be cast"),
        ("http://grafana:99999", "port out of range"),
        ("https://admin:secret@grafana", "who asks is said with --token-file"),
        ("https://grafana/?orgId=1", "start page alone"),
    ],
)
def test_an_address_with_too_much_in_it_is_refused_and_no_password_shown(run: Run, url: str, sentence: str) -> None:
    said = run(*ALL, url=url)
    assert said.code == 2
    assert sentence in said.err.lower()
    assert "secret" not in said.err


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def test_one_that_takes_the_call_and_says_nothing_is_not_waited_for(
    run: Run, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "TIMEOUT_S", 0.3)
    said = run(*ALL, url=f"http://127.0.0.1:{listener.getsockname()[1]}")
    assert said.code == 2
    assert "does not answer within" in said.err


@pytest.mark.parametrize(
    ("kind", "body"), [("text/html", "<html>"), ("application/json", "{}"), ("application/json", "{")]
)
def test_one_that_is_no_grafana_is_found_out(run: Run, listener: socket.socket, kind: str, body: str) -> None:
    def once() -> None:
        caller, _ = listener.accept()
        with caller:
            caller.recv(4096)
            head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
            caller.sendall((head + body).encode())

    thread = threading.Thread(target=once)
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    said = run(*ALL, url=url)
    thread.join()
    assert said.code == 2
    assert said.err == (f"kvscope: {url} answers, but not as Grafana does: give the address of its start page\n")


@pytest.mark.parametrize("token", ["", "two\nlines", "ümlaut"])
def test_a_token_that_is_none_is_refused(run: Run, token: str) -> None:
    said = run(*ALL, token=token)
    assert said.code == 2
    assert said.err.startswith("kvscope: --token holds no token")


@pytest.mark.parametrize("option", ["--token-file", "--ca"])
def test_a_pipe_in_place_of_a_file_is_refused_and_not_waited_for(tmp_path: Path, option: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "token").write_text("glsa_x")
    given = {"--token-file": str(tmp_path / "token"), option: str(tmp_path / "pipe")}
    words = [*ALL, "--url", "http://localhost:1", *(word for each in given.items() for word in each)]
    ran = subprocess.run(
        [sys.executable, "-m", "kvscope", *words], capture_output=True, text=True, check=False, timeout=60
    )
    assert (ran.returncode, ran.stderr) == (
        2,
        f"kvscope: {option}: cannot read {tmp_path / 'pipe'}: not a regular file\n",
    )


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_with_tls_the_signer_has_to_be_known(run: Run, files: Path) -> None:
    with Standing(files / "cert.pem", files / "key.pem") as guarded:
        said = run(*ALL, url=guarded.url)
        assert said.code == 2
        sentence = "is not one that this machine trusts: name who signed it with --ca FILE"
        assert said.err == f"kvscope: the certificate of {guarded.url} {sentence}\n"
        assert run(*ALL, "--ca", str(files / "cert.pem"), url=guarded.url).code == 0
        plain = run(*ALL, url=guarded.url.replace("https", "http"))
        assert plain.code == 2
        assert len(plain.err.splitlines()) == 1
    blank = run(*ALL, "--ca", str(files / "token"))
    assert (blank.code, blank.err) == (2, f"kvscope: --ca {files / 'token'} holds no certificate in PEM\n")
    missing = run(*ALL, "--ca", str(files / "none.pem"))
    assert (missing.code, missing.err) == (
        2,
        f"kvscope: --ca: cannot read {files / 'none.pem'}: no such file or directory\n",
    )


def test_tls_is_asked_of_one_that_does_not_speak_it(run: Run, grafana: Standing) -> None:
    said = run(*ALL, url=grafana.url.replace("http", "https"))
    assert said.code == 2
    assert "does not speak TLS" in said.err


def test_something_else_at_the_address_is_found_out(run: Run, grafana: Standing) -> None:
    said = run(*ALL, url=f"{grafana.url}/grafana")
    assert said.code == 2
    assert said.err == (
        f"kvscope: {grafana.url}/grafana answers, but not as Grafana does: give the address of its start page\n"
    )

"""Who is answered by `kvscope serve` on an address that others can reach: real certificates, real connections."""

from __future__ import annotations

import base64
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from kvscope.live.access import access_of
from kvscope.live.serving import Server
from kvscope.live.visitors import SEATS, Doing

from ..sources.conftest import Start
from .conftest import Serve

TOKEN, USER = "a-token-of-some-length", "prometheus:swordfish"
needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None and not os.environ.get("CI"), reason="openssl is not installed"
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with cert.pem, key.pem, locked.pem (with a password), token, password."""
    folder = tmp_path_factory.mktemp("access")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    words += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(words, cwd=folder, check=True, capture_output=True)
    lock = ["openssl", "rsa", "-aes128", "-passout", "pass:secret", "-in", "key.pem", "-out", "locked.pem"]
    subprocess.run(lock, cwd=folder, check=True, capture_output=True)
    (folder / "token").write_text(TOKEN + "\n")
    (folder / "password").write_text(USER)
    return folder


def guarded(files: Path, *more: str) -> list[str]:
    return ["--tls-cert", str(files / "cert.pem"), "--tls-key", str(files / "key.pem"), *more]


def asked(port: int, files: Path, path: str, authorization: str = "", method: str = "GET") -> tuple[int, str]:
    """Status and text of an answer over TLS, the certificate being checked."""
    context = ssl.create_default_context(cafile=files / "cert.pem")
    connection = http.client.HTTPSConnection("localhost", port, timeout=30, context=context)
    try:
        connection.request(method, path, headers={"Authorization": authorization} if authorization else {})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


@needs_openssl
def test_whoever_shows_the_token_or_the_password_is_answered_and_nobody_else(
    start: Start, serve: Serve, files: Path
) -> None:
    start("p0").tell("write 10")
    words = guarded(files, "--token-file", str(files / "token"), "--password-file", str(files / "password"))
    server = serve("--host", "0.0.0.0", *words)
    assert server.url.startswith("https://0.0.0.0:")
    for right in (f"Bearer {TOKEN}", f"bearer {TOKEN}", basic(USER)):
        status, text = asked(server.port, files, "/metrics", right)
        assert status == 200
        assert "kvscope_build_info" in text
    wrong = (
        "",
        "Bearer",
        f"Bearer {TOKEN}x",
        f"Basic {TOKEN}",
        basic("prometheus:wrong"),
        "Basic %%%",
        basic("é:\xff"),
    )
    for shown in wrong:
        assert asked(server.port, files, "/metrics", shown)[0] == 401, shown
        assert asked(server.port, files, "/nothing", shown)[0] == 401, shown
        assert asked(server.port, files, "/events", shown, "POST")[0] == 401, shown
    assert asked(server.port, files, "/events", f"Bearer {TOKEN}")[0] == 404
    server.end()
    assert server.process.returncode == 0


@needs_openssl
def test_a_secret_that_everybody_here_can_read_is_told(serve: Serve, files: Path, tmp_path: Path) -> None:
    for mode, told in ((0o644, True), (0o640, False)):
        secret = tmp_path / f"{mode:o}"
        secret.write_text(TOKEN)
        secret.chmod(mode)
        (files / "key.pem").chmod(0o600)
        said = serve(*guarded(files, "--token-file", str(secret))).end()
        assert (f"every user of this host can read {secret}" in said) is told, said
        assert TOKEN not in said


@needs_openssl
def test_health_is_told_to_everybody_and_its_details_to_those_who_may_ask(
    run_dir: Path, serve: Serve, files: Path
) -> None:
    server = serve(*guarded(files, "--token-file", str(files / "token")))
    for path in ("/healthz", "/readyz"):
        assert asked(server.port, files, path) == (200, json.dumps({"status": "ok"}))
        assert json.loads(asked(server.port, files, path, f"Bearer {TOKEN}")[1])["run_dir"] == str(run_dir)


@needs_openssl
def test_one_that_does_not_speak_tls_keeps_nobody_waiting(serve: Serve, files: Path) -> None:
    server = serve(*guarded(files, "--token-file", str(files / "token")))
    with (
        socket.create_connection(("127.0.0.1", server.port)),
        socket.create_connection(("127.0.0.1", server.port)) as b,
    ):
        b.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert asked(server.port, files, "/healthz")[0] == 200


@needs_openssl
def test_however_many_never_begin_or_end_tls_health_is_told(serve: Serve, files: Path) -> None:
    server = serve(*guarded(files, "--token-file", str(files / "token")))
    with ExitStack() as stack:
        for number in range(2 * SEATS):
            dawdling = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            dawdling.sendall(b"\x16\x03\x01" if number % 2 else b"")
        assert asked(server.port, files, "/healthz")[0] == 200
        assert asked(server.port, files, "/metrics", f"Bearer {TOKEN}")[0] == 200
    assert "Traceback" not in server.end()


class Slow:
    """Makes a page once it may."""

    body, media_type, encoding, fault = b"page " * 1000, "text/plain", "", ""

    def __init__(self) -> None:
        self.asked, self.may = threading.Event(), threading.Event()

    def page(self, accept: str, accept_encoding: str) -> Slow:
        self.asked.set()
        assert self.may.wait(30)
        return self


@needs_openssl
def test_an_answer_that_is_under_way_when_the_server_ends_is_encrypted_to_its_end(run_dir: Path, files: Path) -> None:
    metrics = Slow()
    access = access_of(files / "cert.pem", files / "key.pem")
    context = ssl.create_default_context(cafile=files / "cert.pem")
    server = Server(run_dir, "127.0.0.1", 0, metrics=metrics, access=access)
    with server, socket.create_connection(("127.0.0.1", server.server_address[1])) as plain:
        client = context.wrap_socket(plain, server_hostname="localhost")
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert metrics.asked.wait(30)
        (visitor,) = server.visitors.those(Doing.SCRAPING)
        server.stop.set()
        visitor.hang_up(socket.SHUT_RD)
        metrics.may.set()
        answer = b"".join(iter(lambda: client.recv(65536), b""))
        client.close()
    assert answer.endswith(Slow.body)


@needs_openssl
def test_one_that_never_begins_tls_holds_up_no_end(run_dir: Path, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvscope.live.visitors.ASK_S", 600)
    access = access_of(files / "cert.pem", files / "key.pem")
    with Server(run_dir, "127.0.0.1", 0, access=access) as server:
        silent = socket.create_connection(("127.0.0.1", server.server_address[1]))
        assert asked(server.server_address[1], files, "/healthz")[0] == 200
    silent.close()


@needs_openssl
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--host 0.0.0.0", "not encrypted and open to whoever asks; add --tls-cert and --tls-key and --token-file or"),
        ("--host 0.0.0.0 --token-file token", "what it serves is not encrypted; add --tls-cert and --tls-key"),
        ("--host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem", "is open to whoever asks; add --token-file or"),
        ("--tls-cert cert.pem", "--tls-cert without --tls-key: TLS needs both"),
        ("--tls-key key.pem", "--tls-key without --tls-cert: TLS needs both"),
        ("--tls-cert none.pem --tls-key key.pem", "--tls-cert: cannot read none.pem: no such file or directory"),
        ("--tls-cert key.pem --tls-key key.pem", "key.pem and key.pem cannot be used for TLS"),
        ("--tls-cert token --tls-key key.pem", "token and key.pem cannot be used for TLS (no pem)"),
        ("--tls-cert cert.pem --tls-key locked.pem", "the key asks for a password"),
        ("--token-file short", "must hold a token of 8 characters or more, on one line"),
        ("--token-file cert.pem", "must hold a token of 8 characters or more, on one line"),
        ("--token-file .", "--token-file: cannot read .: is a directory"),
        *(
            (f"{option} {file}{more}", f"{option}: cannot read {file}: {why}")
            for option, more in (
                ("--token-file", ""),
                ("--password-file", ""),
                ("--tls-cert", " --tls-key key.pem"),
                ("--tls-key", " --tls-cert cert.pem"),
            )
            for file, why in (
                ("pipe", "not a regular file"),
                ("/dev/zero", "not a regular file"),
                ("large", "larger than"),
            )
        ),
        ("--password-file token", "must hold user:password; there is no colon in it"),
        ("--password-file nobody", "must hold user:password"),
        ("--slo ttft=fast", "is not a length of time"),
    ],
)
def test_what_is_no_guard_is_refused_in_a_sentence(run_dir: Path, files: Path, words: str, said: str) -> None:
    (files / "short").write_text("1234567\n")
    (files / "nobody").write_text(":swordfish\n")
    with (files / "large").open("wb") as large:
        large.truncate(10_000_000)
    if not (files / "pipe").exists():
        os.mkfifo(files / "pipe")
    command = [sys.executable, "-m", "kvscope", "serve", "--port", "0", *words.split()]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=files)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1), ran.stderr
    assert said in ran.stderr

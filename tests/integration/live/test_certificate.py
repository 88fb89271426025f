"""Certificates that have ended, or begin later: what openssl makes is what is read, and it is said at the start."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kvscope.live.certificate import Validity, validity_of

from .conftest import Serve
from .test_access import TOKEN, asked, files, guarded, needs_openssl
from .test_serve import asked as plainly

__all__ = ["files"]

Make = Callable[[str, str], Path]
CONFIG = """
[ca]
default_ca = own
[own]
database = index.txt
serial = serial
new_certs_dir = .
default_md = sha256
policy = any
unique_subject = no
[any]
commonName = supplied
[req]
distinguished_name = name
[name]
"""
PAST, SOON, FUTURE, FAR = "20200102030405Z", "20210102030405Z", "20490102030405Z", "20990102030405Z"


def when(text: str) -> datetime:
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


@pytest.fixture
def made(tmp_path: Path) -> Make:
    """made(begin, end): a certificate that is valid between these; its key is beside it."""
    (tmp_path / "config").write_text(CONFIG)
    (tmp_path / "serial").write_text("01\n")
    (tmp_path / "index.txt").touch()
    ask = "openssl req -new -config config -newkey rsa:2048 -nodes -subj /CN=localhost -keyout key.pem -out ask.pem"
    subprocess.run(ask.split(), cwd=tmp_path, check=True, capture_output=True)

    def make(begin: str, end: str) -> Path:
        path = tmp_path / f"{begin}-{end}.pem"
        sign = f"openssl ca -batch -selfsign -notext -config config -keyfile key.pem -in ask.pem -out {path.name}"
        words = [*sign.split(), "-startdate", begin, "-enddate", end]
        subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
        return path

    return make


@needs_openssl
@pytest.mark.parametrize(("begin", "end"), [(PAST, SOON), (PAST, FUTURE), (PAST, FAR), (FUTURE, FAR)])
def test_dates_are_those_that_openssl_was_told(made: Make, begin: str, end: str) -> None:
    """On either side of 2050, from when on they are written in another way."""
    assert validity_of(made(begin, end).read_bytes()) == Validity(when(begin), when(end))


@needs_openssl
def test_metrics_say_when_it_ends(serve: Serve, files: Path) -> None:
    server = serve(*guarded(files, "--token-file", str(files / "token")))
    page = asked(server.port, files, "/metrics", f"Bearer {TOKEN}")[1]
    (line,) = (line for line in page.splitlines() if line.startswith("kvscope_tls_certificate_expiry"))
    valid = validity_of((files / "cert.pem").read_bytes())
    assert valid is not None
    assert float(line.split()[1]) == pytest.approx(valid.end.timestamp(), abs=1e-3)
    assert "\nkvscope_tls" not in plainly(serve().port, "GET", "/metrics")[1], "there is none"


@needs_openssl
def test_a_chain_is_valid_while_all_of_it_is(made: Make) -> None:
    chain = b"".join(made(*dates).read_bytes() for dates in ((PAST, FAR), (SOON, FUTURE)))
    assert validity_of(b"some words before it\n" + chain) == Validity(when(SOON), when(FUTURE))


@needs_openssl
def test_what_cannot_be_read_has_no_dates(made: Make) -> None:
    whole = made(PAST, FAR).read_bytes()
    assert validity_of(b"") is None
    assert validity_of(whole.replace(b"CERTIFICATE", b"RSA PRIVATE KEY")) is None
    lines = whole.splitlines(keepends=True)
    for short in range(len(lines) - 1):
        found = validity_of(lines[0] + b"".join(lines[1 : 1 + short]) + lines[-1])
        assert found in (None, Validity(when(PAST), when(FAR)))


@needs_openssl
@pytest.mark.parametrize(
    ("begin", "end", "said"),
    [
        (PAST, SOON, "ended on 2021-01-02 03:04 UTC"),
        (FUTURE, FAR, "is valid only from 2049-01-02 03:04 UTC"),
        (PAST, FAR, None),
    ],
)
def test_a_certificate_that_nobody_accepts_is_told_at_the_start(
    made: Make, serve: Serve, tmp_path: Path, begin: str, end: str, said: str | None
) -> None:
    path = made(begin, end)
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    words = f"--tls-cert {path} --tls-key {tmp_path / 'key.pem'} --token-file {tmp_path / 'token'} --no-metrics"
    told = serve(*words.split()).end()
    if said is None:
        assert str(path) not in told
    else:
        (line,) = (line for line in told.splitlines() if str(path) in line)
        assert said in line

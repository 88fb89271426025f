"""Who may ask a server, and from where: this host, or whoever proves it over TLS."""

from __future__ import annotations

import base64
import hmac
import ipaddress
import ssl
import stat
from dataclasses import dataclass
from pathlib import Path

from kvscope.live.certificate import Validity, validity_of
from kvscope.live.wire import PORT
from kvscope.model.errors import InputError
from kvscope.probe import regular

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
REALM = 'Basic realm="kvscope", charset="UTF-8"'
SHORTEST_SECRET = 8
"""Characters of a token or password."""
MOST_BYTES, MOST_PEM_BYTES = 4_096, 262_144
"""Of a file with a token or password, and of one with a key or a chain of certificates."""


@dataclass(frozen=True)
class Access:
    """What has to be shown. Nothing is asked for where there is neither token nor password."""

    tls: ssl.SSLContext | None = None
    token: str = ""
    password: str = ""
    """user:password"""
    valid: Validity | None = None
    """when the certificate is; None where that is not known"""

    @property
    def guarded(self) -> bool:
        """Whether anything is asked for."""
        return bool(self.token or self.password)

    def allows(self, authorization: str) -> bool:
        """Whether a request with this header may be answered."""
        return not self.guarded or _proves(authorization, self)


OPEN = Access()


def _proves(shown: str, access: Access) -> bool:
    kind, _, value = shown.partition(" ")
    if kind.lower() == "bearer" and access.token:
        return _same(value.strip(), access.token)
    if kind.lower() == "basic" and access.password:
        try:
            return _same(base64.b64decode(value, validate=True).decode(), access.password)
        except ValueError:
            return False
    return False


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


def access_of(
    certificate: Path | None = None,
    key: Path | None = None,
    token_file: Path | None = None,
    password_file: Path | None = None,
) -> Access:
    """What the files say. InputError: they cannot be used."""
    return Access(
        tls=_context(certificate, key),
        valid=validity_of(_readable(certificate, "--tls-cert")) if certificate else None,
        token=secret_of(token_file, "--token-file", "a token"),
        password=_user(secret_of(password_file, "--password-file", "user:password"), password_file),
    )


def laid_open(*files: Path | None) -> list[Path]:
    """Those of the files that every user of this host can read."""
    return [path for path in files if path is not None and path.stat().st_mode & stat.S_IROTH]


def address_for(host: str, access: Access) -> Address:
    """The address that `host` names. InputError: other hosts could reach it, and it is not guarded for that."""
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host.strip("[]"))
    except ValueError:
        raise InputError(f"{host} is no IP address; the default is 127.0.0.1") from None
    if address.is_loopback or (access.tls and access.guarded):
        return address
    raise InputError(
        f"{host} could be reached from other hosts, and what it serves is {_lacks(access)}; add {_wants(access)}"
        f" (docs/serve.md), or leave it on 127.0.0.1 and connect from elsewhere through"
        f" `ssh -L {PORT}:localhost:{PORT} THIS_HOST`"
    )


def _lacks(access: Access) -> str:
    lacks = [] if access.tls else ["not encrypted"]
    return " and ".join(lacks if access.guarded else [*lacks, "open to whoever asks"])


def _wants(access: Access) -> str:
    wants = [] if access.tls else ["--tls-cert and --tls-key"]
    return " and ".join(wants if access.guarded else [*wants, "--token-file or --password-file"])


def _context(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        given, absent = ("--tls-key", "--tls-cert") if certificate is None else ("--tls-cert", "--tls-key")
        raise InputError(f"{given} without {absent}: TLS needs both, the certificate and its key")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _readable(certificate, "--tls-cert")
    _readable(key, "--tls-key")
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{certificate} and {key} cannot be used for TLS ({_reason(error)}); give a PEM certificate and its key"
            " without a password"
        ) from None
    return context


def _reason(error: Exception) -> str:
    """In words: OpenSSL has none for what it cannot parse."""
    reason = getattr(error, "reason", None) or ("no PEM" if isinstance(error, ssl.SSLError) else error)
    return str(reason).replace("_", " ").lower()


def _no_password() -> str:
    raise ValueError("the key asks for a password")


def _readable(path: Path, option: str, most: int = MOST_PEM_BYTES) -> bytes:
    try:
        return regular.read(path, most)
    except OSError as error:
        raise InputError(f"{option}: cannot read {path}: {(error.strerror or str(error)).lower()}") from None


def secret_of(path: Path | None, option: str, what: str) -> str:
    """The one line of a file."""
    if path is None:
        return ""
    try:
        lines = _readable(path, option, MOST_BYTES).decode().split("\n")
    except UnicodeDecodeError:
        raise InputError(f"{option}: {path} is no text; write {what} into it, on one line") from None
    secret = lines[0].strip()
    if len(secret.rpartition(":")[2]) < SHORTEST_SECRET or any(line.strip() for line in lines[1:]):
        raise InputError(f"{option}: {path} must hold {what} of {SHORTEST_SECRET} characters or more, on one line")
    return secret


def _user(secret: str, path: Path | None) -> str:
    if path is not None and not secret.partition(":")[0]:
        raise InputError(f"--password-file: {path} must hold user:password")
    if path is not None and ":" not in secret:
        raise InputError(f"--password-file: {path} must hold user:password; there is no colon in it")
    return secret

"""Where a collector is, and what it wants to be shown: from the command line, or from OpenTelemetry's variables."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kvscope.model.errors import InputError
from kvscope.probe import regular

TRACES = "/v1/traces"
ENV = "env"
"""Said in a URL's place: take it from the variables below."""
PREFIX = "OTEL_EXPORTER_OTLP_"
PROTOCOL = "http/protobuf"
SHOWN = 40
"""Characters of a wrong name that an error shows."""
TIMEOUT_S = 10.0
"""For a connection, and for an answer."""
MOST_CA_BYTES = 4_194_304
"""Of a file with who may sign: a system's own has a quarter of a MB."""
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*[:]\s*([\x20-\x7e\x80-\xff]*)")
_HOST_AND_PORT = re.compile(r"[\w.-]+:\d+(/.*)?")


@dataclass(frozen=True)
class Endpoint:
    """A collector."""

    url: str
    """Whole, up to the path of traces."""
    headers: Mapping[str, str]
    ca: Path | None = None
    """Certificates that it is checked against; None: the system's."""

    @property
    def path(self) -> str:
        """What is asked for."""
        return urlsplit(self.url).path

    def connection(self) -> HTTPConnection:
        """A connection to it, not opened yet. InputError: `ca` holds no certificates."""
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        if parts.scheme == "http":
            return HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT_S)
        return HTTPSConnection(parts.hostname, parts.port, timeout=TIMEOUT_S, context=_context(self.ca))


def is_address(text: str) -> bool:
    """Whether `--otlp TEXT` names a collector; if not, it names a file. InputError: it looks like an address."""
    if text == ENV or text.startswith(("http://", "https://")):
        return True
    if "://" in text or _HOST_AND_PORT.fullmatch(text):
        raise InputError(f"--otlp {text}: spans are sent by HTTP; name it so: http://{text.rpartition('://')[2]}")
    return False


def endpoint(text: str, headers: Sequence[str], ca: Path | None, environ: Mapping[str, str]) -> Endpoint:
    """What was named. InputError: it cannot be an address, or a header cannot be one."""
    found = _told(environ) if text == ENV else Endpoint(_traces(_checked(text, "--otlp"), TRACES), {})
    return Endpoint(found.url, {**found.headers, **dict(map(_header, headers))}, ca or found.ca)


def _told(environ: Mapping[str, str]) -> Endpoint:
    """As OpenTelemetry's variables have it; those for traces alone come first."""
    own, every = environ.get(f"{PREFIX}TRACES_ENDPOINT"), environ.get(f"{PREFIX}ENDPOINT")
    if not own and not every:
        raise InputError(
            f"--otlp {ENV}: {PREFIX}ENDPOINT is not set; set it, or name the collector: --otlp http://HOST"
        )
    name = f"{PREFIX}TRACES_ENDPOINT" if own else f"{PREFIX}ENDPOINT"
    protocol = _either(environ, "PROTOCOL") or PROTOCOL
    if protocol != PROTOCOL:
        raise InputError(f"{PREFIX}PROTOCOL is {protocol}, and spans are sent as {PROTOCOL}; name the address for that")
    url = _checked(own or every or "", name)
    certificate = _either(environ, "CERTIFICATE")
    pairs = [pair for pair in _either(environ, "HEADERS").split(",") if pair.strip()]
    return Endpoint(
        _traces(url, "/" if own else TRACES), dict(map(_pair, pairs)), Path(certificate) if certificate else None
    )


def _either(environ: Mapping[str, str], name: str) -> str:
    return environ.get(f"{PREFIX}TRACES_{name}") or environ.get(f"{PREFIX}{name}") or ""


def _checked(url: str, where: str) -> str:
    try:
        parts = urlsplit(url)
        bad = parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
    except ValueError:
        bad = True
    if bad:
        raise InputError(f"{where} {url}: an address such as http://collector:4318 is expected")
    if parts.username or parts.password:
        raise InputError(f"{where}: leave name and password out of the address; give them with --otlp-header")
    return url


def _traces(url: str, path: str) -> str:
    """With the path of traces: added to an address that does not end in it."""
    base = url.partition("?")[0].rstrip("/")
    return base if base.endswith(TRACES) else base + path


def _header(text: str) -> tuple[str, str]:
    found = _HEADER.fullmatch(text)
    if found is None:
        raise InputError(
            f"{_shown(text, ':')} a name and a value are expected: --otlp-header 'Authorization: Bearer ..'"
        )
    return found[1], found[2]


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"{_shown(text, '=')} name=value is expected in {PREFIX}HEADERS, several separated by commas")
    return _header(f"{name.strip()}: {unquote(value.strip())}")


def _shown(text: str, after: str) -> str:
    """What to call a header in an error: its name, if it has one. A value may be secret."""
    name, found, _ = text.partition(after)
    return f"header {name.strip()[:SHOWN]!r}:" if found else "a header without a name:"


def _context(ca: Path | None) -> ssl.SSLContext:
    try:
        if ca is not None:
            regular.read(ca, MOST_CA_BYTES)
        return ssl.create_default_context(cafile=ca)
    except ssl.SSLError:
        raise InputError(f"{ca} holds no certificates; name a file of them in PEM with --otlp-ca") from None
    except OSError as error:
        raise InputError(f"{ca} cannot be read: {(error.strerror or str(error)).lower()}") from None

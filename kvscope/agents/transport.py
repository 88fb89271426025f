"""How batches travel: one question, one answer. Over HTTP here; whatever else acknowledges will do. Standard library
only.
"""

from __future__ import annotations

import http.client
import json
import ssl
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from kvscope.agents.wire import PORT, TAKE
from kvscope.model.errors import InputError

PATIENCE_S = 20.0
MOST_ANSWER = 4 << 20


class Undelivered(Exception):
    """It is not known to have been taken; ask again. The message says why."""


class Transport(Protocol):
    """The way to an aggregator."""

    name: str

    def ask(self, body: bytes) -> dict[str, Any]:
        """The answer. Undelivered: there is none."""

    def close(self) -> None:
        """Hang up."""


class Http:
    """To `http://HOST:PORT` or `https://HOST:PORT`: one connection, made anew where it broke."""

    def __init__(self, url: str, token: str = "", ca: Path | None = None) -> None:
        """ca: PEM of who signed the other's certificate; None: whom the system trusts. InputError: it cannot be so."""
        self.name = url
        self._token = token
        try:
            found = urlsplit(url)
            host, port = found.hostname, found.port or PORT
        except ValueError:
            host, port = None, PORT
        if not host or found.scheme not in ("http", "https") or found.path.strip("/") or found.query:
            raise InputError(f"{url!r} is no address of an aggregator; write it as https://HOST:{PORT}")
        if not token.isascii() or not token.isprintable():
            raise InputError(
                "the token has characters that no header can carry; use letters, digits and signs of ASCII"
            )
        self._host, self._port, self._tls = host, port, _context(ca) if found.scheme == "https" else None
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, body: bytes) -> dict[str, Any]:
        """As `Transport` has it."""
        try:
            return self._asked(body)
        except Undelivered:
            self.close()
            raise
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise Undelivered(f"the certificate of {self.name} is refused: {error.verify_message}") from None
        except ssl.SSLError as error:
            self.close()
            why = str(error.reason or error).replace("_", " ").lower()
            raise Undelivered(f"{self.name} does not speak TLS as it should ({why}); is it http://?") from None
        except ConnectionRefusedError:
            self.close()
            raise Undelivered(f"nothing listens at {self.name}; is `kvscope serve --take DIR` running there?") from None
        except TimeoutError:
            self.close()
            raise Undelivered(f"{self.name} does not answer") from None
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            self.close()
            raise Undelivered(f"{self.name} closed the connection without an answer; is it https://?") from None
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Undelivered(
                f"{self.name} cannot be reached: {(getattr(error, 'strerror', '') or str(error)).lower()}"
            ) from None

    def _asked(self, body: bytes) -> dict[str, Any]:
        connection = self._connection = self._connection or self._made()
        headers = {"Content-Type": "application/octet-stream"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if not self._tls:
            headers["Host"] = "localhost"  # as through a tunnel; a guarded server takes any
        connection.request("POST", TAKE, body, headers)
        response = connection.getresponse()
        raw = response.read(MOST_ANSWER)
        if response.status == http.client.OK:
            return _object(raw, self.name)
        said = raw.decode("utf-8", "replace").strip()[:300]
        if response.status == http.client.UNAUTHORIZED:
            raise Undelivered(
                f"{self.name} refuses the token: give the one that `kvscope serve` has, with --token-file"
            )
        if response.status == http.client.NOT_FOUND:
            raise Undelivered(f"{self.name} takes nothing from agents: start `kvscope serve` there with --take DIR")
        raise Undelivered(f"{self.name} answered {response.status}: {said or response.reason}")

    def _made(self) -> http.client.HTTPConnection:
        if self._tls:
            return http.client.HTTPSConnection(self._host, self._port, timeout=PATIENCE_S, context=self._tls)
        return http.client.HTTPConnection(self._host, self._port, timeout=PATIENCE_S)

    def close(self) -> None:
        """Hang up; the next question makes a new connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _object(raw: bytes, name: str) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Undelivered(f"what {name} answers is not understood; is it a `kvscope serve`?")
    return found


def _context(ca: Path | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=str(ca) if ca else None)
    except (OSError, ValueError) as error:
        raise InputError(
            f"--ca: {ca} cannot be used: {(getattr(error, 'strerror', '') or str(error)).lower()}"
        ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context

"""One connection to a `kvscope serve`: made, or refused in a sentence."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import IO, Any, cast
from urllib.parse import urlsplit

from kvscope.live.wire import EVENTS, MEDIA_TYPE, PORT, SILENCE_S
from kvscope.model.errors import InputError
from kvscope.probe.recording import Parts, RecordingError, parts


@dataclass(frozen=True)
class Address:
    """Where a server listens."""

    host: str
    port: int = PORT

    def __str__(self) -> str:
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def address_of(text: str) -> Address:
    """`host`, `host:port`, `[::1]:port`, or the URL that the server printed. InputError: none of these."""
    try:
        found = urlsplit(text if "//" in text else f"//{text}", scheme="http")
        host, port = found.hostname, found.port
    except ValueError:
        host, port = None, None
    if not host or found.scheme != "http" or found.path.strip("/"):
        raise InputError(f"{text!r} is no address; write it as HOST:PORT, e.g. localhost:{PORT}")
    return Address(host, PORT if port is None else port)


class Refused(Exception):
    """The other end cannot be followed. The message says why and what to do."""


@contextmanager
def following(address: Address, mark: Mapping[str, Any] | None) -> Iterator[Parts]:
    """What the server sends, from `mark` on where there is one. Refused: it cannot be had, or not any longer."""
    with ExitStack() as stack:
        connection = stack.enter_context(
            closing(http.client.HTTPConnection(address.host, address.port, timeout=SILENCE_S))
        )
        response = stack.enter_context(_asked(connection, address, mark))
        try:
            yield _answered(response, address)
        except TimeoutError:
            raise Refused(f"{address} fell silent") from None
        except (OSError, http.client.HTTPException):
            raise Refused(f"the connection to {address} broke") from None


def _asked(
    connection: http.client.HTTPConnection, address: Address, mark: Mapping[str, Any] | None
) -> http.client.HTTPResponse:
    try:
        return _ask(connection, mark)
    except ConnectionRefusedError:
        reason = "start `kvscope serve` there, and for another host `ssh -N -L PORT:localhost:PORT HOST` here"
        raise Refused(f"nothing listens at {address}; {reason}") from None
    except TimeoutError:
        raise Refused(f"{address} does not answer; is that the port of `kvscope serve`?") from None
    except (http.client.RemoteDisconnected, ConnectionResetError):
        reason = "is `kvscope serve` running behind it?"
        raise Refused(f"{address} closed the connection without an answer; {reason}") from None
    except http.client.HTTPException:
        raise Refused(f"what listens at {address} is no `kvscope serve`: it does not speak HTTP") from None
    except OSError as error:
        raise Refused(f"{address} cannot be reached: {(error.strerror or str(error)).lower()}") from None


def _ask(connection: http.client.HTTPConnection, mark: Mapping[str, Any] | None) -> http.client.HTTPResponse:
    # A tunnel may have any name; a server answers to its own alone.
    headers = {"Host": "localhost", "Accept": MEDIA_TYPE}
    if mark is None:
        connection.request("GET", EVENTS, headers=headers)
    else:
        connection.request("POST", EVENTS, json.dumps(mark), headers)
    return connection.getresponse()


def _answered(response: http.client.HTTPResponse, address: Address) -> Parts:
    if response.status == http.client.SERVICE_UNAVAILABLE and _is_kvscope(response):
        raise Refused(f"{address}: {response.read(500).decode('utf-8', 'replace').strip()}")
    if response.status != http.client.OK or response.headers.get_content_type() != MEDIA_TYPE:
        raise Refused(
            f"what listens at {address} is no `kvscope serve` (it answered {response.status} {response.reason});"
            f" its port is {PORT} unless --port chose another"
        )
    try:
        return parts(cast(IO[bytes], _Arriving(response)))
    except RecordingError as error:
        raise Refused(f"{address} sends a {error}; use the same kvscope at both ends") from None


def _is_kvscope(response: http.client.HTTPResponse) -> bool:
    return response.headers.get("Server", "").startswith("kvscope/")


class _Arriving:
    """A response to read from as it comes: a read gives what is there, not as much as was asked for."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.read = response.read1

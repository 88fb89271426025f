"""A connection to Grafana, and what goes wrong with one, each in a sentence."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import niquests
from grafana_client.api import GrafanaApi
from grafana_client.client import GrafanaClientError, GrafanaException, GrafanaServerError

from kvscope.model.errors import InputError
from kvscope.probe import regular

OLDEST = 10
"""Major version. Tables say how a cell looks in the words of Grafana 10, and folders are named by uid alone."""
TIMEOUT_S = 15.0
NOT_FOUND, FORBIDDEN, CHANGED = 404, 403, 412
MOST_CA_BYTES = 10_000_000
_NEEDED = "Permissions needed: "


@dataclass(frozen=True)
class Grafana:
    """A server that answers and is new enough. A context manager: what was opened is closed at its end."""

    url: str
    version: str
    """empty where it keeps that to itself"""
    api: Any
    """grafana-client's, which has no types"""

    def __enter__(self) -> Grafana:
        return self

    def __exit__(self, *_: object) -> None:
        self.api.client.s.close()

    def asked(self, what: str, call: Callable[..., Any], *given: object, **named: object) -> Any:  # noqa: ANN401
        """What a call answers. InputError says what went wrong while doing `what`."""
        try:
            return call(*given, **named)
        except GrafanaException as error:
            raise InputError(_refused(self.url, what, error)) from error
        except niquests.exceptions.RequestException as error:
            raise InputError(_unreachable(self.url, error)) from error

    def found(self, what: str, call: Callable[..., Any], *given: object) -> Any:  # noqa: ANN401
        """The same of something that may not be there: None."""
        try:
            return self.asked(what, call, *given)
        except InputError as error:
            if isinstance(error.__cause__, GrafanaClientError) and error.__cause__.status_code == NOT_FOUND:
                return None
            raise


def connect(url: str, token: str, ca: Path | None = None) -> Grafana:
    """Reach a server and ask for its version. InputError: there is none, it is too old, or it lets nobody in."""
    parts, port = _address(url)
    _trusted(ca)
    prefix = parts.path.strip("/")
    api = GrafanaApi(
        token, host=_host(parts.hostname or ""), port=port, protocol=parts.scheme,
        url_path_prefix=f"{prefix}/" if prefix else "", verify=str(ca) if ca else True, timeout=TIMEOUT_S,
    )  # fmt: skip
    server = Grafana(url.rstrip("/"), "", api)
    try:
        settings = server.found("the question for its version", _settings, api)
        return Grafana(server.url, _checked(server, settings), api)
    except BaseException:
        server.__exit__()
        raise


def _address(url: str) -> tuple[SplitResult, int | None]:
    """Its parts, and the port. InputError: it is no address of a Grafana."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InputError(f"--url {url}: {str(error)[:1].lower()}{str(error)[1:]}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"--url {url}: say http:// or https:// and the host of Grafana")
    if parts.username is not None or parts.query or parts.fragment:
        raise InputError("--url: give the address of Grafana's start page alone; who asks is said with --token-file")
    return parts, port


def _trusted(ca: Path | None) -> None:
    """InputError: no certificate is in there."""
    if ca is None:
        return
    try:
        regular.read(ca, MOST_CA_BYTES)
        ssl.create_default_context(cafile=ca)
    except ssl.SSLError:
        raise InputError(f"--ca {ca} holds no certificate in PEM") from None
    except OSError as error:
        raise InputError(f"--ca: cannot read {ca}: {(error.strerror or str(error)).lower()}") from None


def _host(name: str) -> str:
    return f"[{name}]" if ":" in name else name


def _settings(api: Any) -> Any:  # noqa: ANN401
    return api.client.GET("/frontend/settings")


def _checked(server: Grafana, settings: object) -> str:
    """The version, if that server is of use."""
    if not isinstance(settings, dict) or not isinstance(settings.get("buildInfo"), dict):
        raise InputError(f"{server.url} answers, but not as Grafana does: give the address of its start page")
    version = str(settings["buildInfo"].get("version") or "")
    major = version.partition(".")[0]
    if major.isdigit() and int(major) < OLDEST:
        raise InputError(f"{server.url} is Grafana {version}; the dashboards need {OLDEST}.0 or newer")
    return version


def _refused(url: str, what: str, error: GrafanaException) -> str:
    """Why Grafana does not do it."""
    told = error.response.get("message", "") if isinstance(error.response, dict) else ""
    if error.status_code == 0:
        return f"{url} does not answer within {TIMEOUT_S:.0f} s"
    if error.status_code == 401:
        return (
            f"{url} does not take the token ({told or 'unauthorized'}): make one under Administration, Service accounts"
        )
    if error.status_code == FORBIDDEN and _NEEDED in told:
        needed = told.partition(_NEEDED)[2]
        return f"the token may not do that ({what}): it needs {needed}; give its account that, or the role Admin"
    if error.status_code == FORBIDDEN:
        return f"the token may not do that ({what}){_because(told)}"
    if error.status_code == CHANGED:
        return f"{what} was changed on {url} meanwhile{_because(told)}; look at it and push again"
    if isinstance(error, GrafanaServerError):
        return f"{url} failed ({error.status_code}) at {what}{_because(told)}"
    return f"{url} refuses {what} ({error.status_code}){_because(told)}"


def _because(told: str) -> str:
    return f": {told.rstrip('.')}" if told else ""


def _unreachable(url: str, error: Exception) -> str:
    """Why it cannot be talked to at all."""
    told = " ".join(str(error).split())
    if "CERTIFICATE_VERIFY_FAILED" in told or "certificate" in told.lower():
        return f"the certificate of {url} is not one that this machine trusts: name who signed it with --ca FILE"
    if isinstance(error, niquests.exceptions.SSLError) or "SSL" in told:
        return f"{url} does not speak TLS, or not as is asked: try the other of http:// and https://"
    if isinstance(error, niquests.exceptions.Timeout):
        return f"{url} does not answer within {TIMEOUT_S:.0f} s"
    if isinstance(error, niquests.exceptions.JSONDecodeError):
        return f"{url} answers, but not as Grafana does: give the address of its start page"
    return f"nothing answers at {url}: is the address right, and Grafana running?"

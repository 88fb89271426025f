"""From when until when certificates are valid, read from the file that holds them. Standard library only.

`ssl` tells of a certificate that it has verified, which one that has ended cannot be. So the dates are taken from where
X.509 has them: Certificate{tbsCertificate{[0] version, serialNumber, signature, issuer, validity{notBefore, notAfter}..
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

_PEM = re.compile(rb"-----BEGIN ((?:X509 |TRUSTED )?CERTIFICATE)-----(.+?)-----END \1-----", re.S)
_VERSION, _SEQUENCE, _UTC_TIME, _GENERALIZED_TIME = 0xA0, 0x30, 0x17, 0x18
_VALIDITY = 3
"""Its place in a tbsCertificate, the version left out: older ones have none."""
_FORMS = {_UTC_TIME: "%y%m%d%H%M%SZ", _GENERALIZED_TIME: "%Y%m%d%H%M%SZ"}


@dataclass(frozen=True)
class Validity:
    """When all certificates of a file are valid."""

    begin: datetime
    end: datetime

    def fault(self, now: datetime) -> str:
        """What is wrong with it at an instant; empty where nothing is."""
        if now > self.end:
            return f"ended on {_told(self.end)}"
        return f"is valid only from {_told(self.begin)}" if now < self.begin else ""


def validity_of(pem: bytes) -> Validity | None:
    """Of a certificate with its chain. None: there is nothing in it that says so."""
    try:
        spans = [_span(binascii.a2b_base64(body)) for _, body in _PEM.findall(pem)]
    except (ValueError, IndexError):
        return None
    return Validity(max(begin for begin, _ in spans), min(end for _, end in spans)) if spans else None


def _told(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M} UTC"


def _span(der: bytes) -> tuple[datetime, datetime]:
    """(not before, not after) of a certificate. ValueError, IndexError: it is none."""
    (_, certificate), *_ = _elements(der)
    (_, told), *_ = _elements(certificate)
    fields = [(tag, value) for tag, value in _elements(told) if tag != _VERSION]
    tag, validity = fields[_VALIDITY]
    begin, end = (_time(*each) for each in _elements(validity))
    if tag != _SEQUENCE:
        raise ValueError("no validity where it should be")
    return begin, end


def _time(tag: int, value: bytes) -> datetime:
    return datetime.strptime(value.decode(), _FORMS.get(tag, "%")).replace(tzinfo=UTC)


def _elements(der: bytes) -> Iterator[tuple[int, bytes]]:
    """(tag, value) of each element that lies there, one after the other."""
    at = 0
    while at < len(der):
        tag, size, at = der[at], der[at + 1], at + 2
        if size & 0x80:
            more = size & 0x7F
            size, at = int.from_bytes(der[at : at + more]), at + more
        yield tag, der[at : at + size]
        at += size

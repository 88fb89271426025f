"""What an agent and an aggregator say to each other. Standard library only.

An agent asks; what it sends is a recording: a mark that is the *envelope*, then a batch, if there is one. The answer is
JSON. How it travels is the transport's affair.

    envelope  agent         {name, boot_id, version}
              sent          ns, the agent's clock, before it was written
              exchange      the four instants of the question before: host, peer, sent, received, replied, back
              dropped       process -> records in batches that went for want of room before they were sent
              waiting       batches behind this one
              ask           names of ring files: how far were they read, as far as the aggregator knows?
    answer    boot_id, received, replied    ns, the aggregator's clock
              taken         recording and part, which were taken now or had been before
              rings         to `ask`: ring file -> how far, as a mark has it
              refused       {kind, why}; nothing of it was taken
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from kvscope.model.exchange import Exchange
from kvscope.probe.recording import FILE_HEADER, Writer

VERSION = 1
PORT = 7878
TAKE = "/take"
MOST_BODY = 16 << 20
"""Bytes of an envelope and a batch."""

TOKEN, PLAIN, GARBAGE, OTHER_VERSION, OTHERS, FULL = "token", "plain_text", "garbage", "version", "engine_id", "full"
KINDS = {
    TOKEN: "the token was missing or another",
    PLAIN: "plain text came where TLS is spoken, or a handshake failed",
    GARBAGE: "it was no batch",
    OTHER_VERSION: "it was of another version",
    OTHERS: "an engine id or a process that another agent tells of",
    FULL: "it could not be written",
}
"""Why something is refused -> in words"""


def sealed(envelope: Mapping[str, Any], batch: bytes = b"") -> bytes:
    """What is sent."""
    file = io.BytesIO()
    Writer(file).mark(dict(envelope))
    return file.getvalue() + batch[FILE_HEADER.size :]


def listed(exchange: Exchange | None) -> list[Any] | None:
    """As an envelope has it."""
    if exchange is None:
        return None
    return [
        exchange.host, exchange.peer, exchange.sent, exchange.received, exchange.replied, exchange.back
    ]  # fmt: skip


def exchange_of(told: object) -> Exchange | None:
    """What `listed` gave; None: it is none, or none that clocks can have shown."""
    match told:
        case [str(host), str(peer), int(sent), int(received), int(replied), int(back)]:
            found = Exchange(host[:8], peer[:8], sent, received, replied, back)
            return found if found.possible else None
    return None

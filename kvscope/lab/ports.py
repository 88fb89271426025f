"""Ports for engines: chosen by the system, and kept from everyone else until the engine listens.

An engine opens its side channel a minute after it was told the port. A port that is merely free when it is chosen can
be somebody's connection by then, and vLLM waits for ever for a listener that could not bind.
"""

from __future__ import annotations

import socket
from contextlib import ExitStack

HOST = "127.0.0.1"


class Ports:
    """Takes ports and keeps them until `close()`.

    They are bound, not listened on, with SO_REUSEADDR. Whoever asks for that very port with the same option, as ZeroMQ
    and vLLM's server do, may listen on it; who asks for any port is not given it.
    """

    def __init__(self) -> None:
        self._held = ExitStack()

    def take(self, count: int) -> list[int]:
        """So many, all different."""
        sockets = [self._held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]

    def close(self) -> None:
        """Keep them no longer; who listens on one goes on."""
        self._held.close()


def free_ports(count: int) -> list[int]:
    """Ports that nothing has, all different: for what listens at once."""
    ports = Ports()
    try:
        return ports.take(count)
    finally:
        ports.close()

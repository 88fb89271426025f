"""Two small HTTP servers that answer like a prefill and a decode engine: real sockets, no model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

PARAMS = {
    "do_remote_prefill": True,
    "do_remote_decode": False,
    "remote_block_ids": [[1, 2]],
    "remote_host": "127.0.0.1",
    "remote_port": 1,
    "tp_size": 1,
}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Seen:
    """A leg that arrived."""

    request: str
    body: dict[str, Any]


@dataclass
class FakeEngine:
    """Keeps the legs it got. `answered` is set when a leg has arrived; `gone` when one was given up."""

    seen: list[Seen] = field(default_factory=list)
    status: int = 200
    go: asyncio.Event = field(default_factory=asyncio.Event)
    """Answers wait for it."""
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    epoch: str = "E1"
    url: str = ""

    def __post_init__(self) -> None:
        self.go.set()

    async def take(self, request: web.Request) -> None:
        """Note the leg, then wait until told to answer."""
        self.seen.append(Seen(request.headers["X-Request-Id"], await request.json()))
        self.arrived.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.gone.set()
            raise

    async def prefill(self, request: web.Request) -> web.StreamResponse:
        """Answer as a prefill engine."""
        await self.take(request)
        if self.status != 200:
            return web.Response(status=self.status, text="prefill is broken")
        told = PARAMS | {
            "remote_engine_id": self.epoch,
            "remote_request_id": f"cmpl-{self.seen[-1].request}-0-abcdef01",
        }
        return web.json_response({"kv_transfer_params": told})

    async def decode(self, request: web.Request) -> web.StreamResponse:
        """Answer as a decode engine: two tokens, streamed."""
        await self.take(request)
        if self.status != 200:
            return web.Response(status=self.status, text="decode is broken")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for token in (7, 8):
            await response.write(event({"choices": [{"text": "x", "token_ids": [token]}]}))
        await response.write(event({"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 2}}))
        await response.write(b"data: [DONE]\n\n")
        return response


def event(told: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(told).encode() + b"\n\n"


@asynccontextmanager
async def serving(engine: FakeEngine, handler: Handler) -> AsyncIterator[FakeEngine]:
    """Let `engine` answer on a port of its own."""
    app = web.Application()
    app.router.add_post("/v1/completions", handler)
    async with TestServer(app) as server:
        engine.url = str(server.make_url("")).rstrip("/")
        yield engine

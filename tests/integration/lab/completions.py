"""A server that answers completions as a router does, in a thread of its own: real sockets, no model."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from aiohttp import web

from .engines import event


@dataclass
class Completions:
    """What it was asked, and how it answers."""

    asked: list[str] = field(default_factory=list)
    """Request ids."""
    broken: Callable[[str], bool] = lambda _: False
    """Of these ids it answers with 500."""
    letters: int = 2
    """That it counts as a token."""
    url: str = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Three tokens, streamed; or whole, where that was asked for."""
        name, body = request.headers["X-Request-Id"], await request.json()
        self.asked.append(name)
        if self.broken(name):
            return web.Response(status=500, text="it is broken | <b>")
        usage = {"prompt_tokens": max(1, len(body["prompt"]) // self.letters), "completion_tokens": 3}
        if not body.get("stream"):
            choice = {"text": "xyz", "token_ids": [7, 8, 9]}
            return web.json_response({"choices": [choice], "usage": usage})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for token in (7, 8, 9):
            await response.write(event({"choices": [{"text": "x", "token_ids": [token]}]}))
        await response.write(event({"choices": [], "usage": usage}))
        await response.write(b"data: [DONE]\n\n")
        return response

    @property
    def counted(self) -> list[str]:
        """Ids of cells' requests, not of warm-ups and bursts."""
        return [name for name in self.asked if not name.startswith("warmup-")]


@contextmanager
def completing(server: Completions) -> Iterator[Completions]:
    """Let it answer on a port of its own."""
    loop, up = asyncio.new_event_loop(), threading.Event()

    async def begin() -> web.AppRunner:
        app = web.Application()
        app.router.add_post("/v1/completions", server.answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    def serve() -> None:
        runner = loop.run_until_complete(begin())
        up.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert up.wait(20)
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

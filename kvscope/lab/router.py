"""A router for a prefill/decode pair, with an event loop of its own: `python -m kvscope.lab.router`.

It reports its own moments like any instrumented process. Early dispatch needs the prefill engine's
coordinates, which it learns from any earlier answer; until then it dispatches one after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import uuid
from collections.abc import AsyncGenerator, Sequence
from dataclasses import asdict
from importlib.metadata import version

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, TCPConnector, web

from kvscope.lab import dispatch
from kvscope.lab.dispatch import Body, Conduct
from kvscope.model.errors import InputError
from kvscope.probe import recorder
from kvscope.probe.vocabulary import LEG_CODE, MOMENT_CODE

READY = "kvscope router listening on "
LEG = LEG_CODE["router"]
# A response, once its body has begun, then the body's pieces.
Answer = AsyncGenerator[ClientResponse | bytes, None]
HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "date", "server", "content-encoding"}


class LegFailed(Exception):
    """A leg did not answer as it should: the status and text for the client."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class Router:
    """Sends each request's two legs and relays the decode engine's answer."""

    def __init__(self, connector: str, prefills: Sequence[str], decodes: Sequence[str], conduct: Conduct) -> None:
        self.connector, self.conduct = connector, conduct.checked(connector)
        self._turns = itertools.cycle(itertools.product(prefills, decodes))
        self._known: dict[str, Body] = {}
        self._session: ClientSession | None = None

    @property
    def session(self) -> ClientSession:
        """Connections to the engines: as many as needed, waiting as long as it takes."""
        if self._session is None:
            self._session = ClientSession(connector=TCPConnector(limit=0), timeout=ClientTimeout(total=None))
        return self._session

    async def close(self, _: web.Application) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer one completion request."""
        name = request.headers.get("X-Request-Id") or uuid.uuid4().hex
        tell("received", name)
        body = await request.json()
        exchange = Exchange(self, name, request.path, body, *next(self._turns))
        try:
            async with contextlib.aclosing(exchange.answer()) as answer:
                return await relay(request, name, answer)
        except LegFailed as failed:
            return web.json_response({"error": {"message": failed.text, "code": failed.status}}, status=failed.status)

    def learn(self, prefill: str, returned: Body) -> None:
        """Keep an engine's coordinates; each answer renews them, since they change when it restarts."""
        self._known[prefill] = dispatch.coordinates(returned)

    def forget(self, prefill: str) -> None:
        """Its coordinates may no longer be true."""
        self._known.pop(prefill, None)

    def known(self, prefill: str) -> Body | None:
        """Its coordinates, if they were learned and early dispatch is on."""
        return self._known.get(prefill) if self.conduct.dispatch == "early" else None

    async def control(self, request: web.Request) -> web.Response:
        """GET: the conduct. POST: change it; requests under way keep the one they began with."""
        if request.method == "POST":
            try:
                self.conduct = self.conduct.changed(self.connector, await request.json())
            except (InputError, ValueError) as error:
                return web.json_response({"error": str(error)}, status=400)
            describe(self.conduct)
        return web.json_response(asdict(self.conduct))


class Exchange:
    """One request's two legs."""

    def __init__(self, router: Router, name: str, path: str, body: Body, prefill: str, decode: str) -> None:
        self._router, self._conduct = router, router.conduct
        self._name, self._path, self._body = name, path, body
        self._prefill, self._decode = prefill, decode

    async def answer(self) -> Answer:
        """The decode engine's response, then its body's pieces as they come. LegFailed: a leg did not work."""
        known = self._router.known(self._prefill)
        if known is None:
            params = await self.prefilled()
            await self.hold()
            async for piece in self.decoded(dispatch.sequential_params(self._router.connector, params)):
                yield piece
            return
        prefill = asyncio.create_task(self.prefilled())
        try:
            await self.sent_first(prefill)
            await self.hold()
            async for piece in racing(self.decoded(dispatch.early_params(known)), prefill):
                yield piece
        finally:
            await settled(prefill)

    async def hold(self) -> None:
        """Wait between the legs, if asked to."""
        if self._conduct.hold_ms:
            await asyncio.sleep(self._conduct.hold_ms / 1e3)

    @staticmethod
    async def sent_first(prefill: asyncio.Task[Body]) -> None:
        """Let the prefill leg's request out before the decode leg is begun."""
        await asyncio.wait({prefill}, timeout=0)

    async def prefilled(self) -> Body:
        """Send the prefill leg; returns the parameters that its answer carries."""
        if self._conduct.drop == "prefill":
            return await never()
        tell("prefill_sent", self._name)
        url = self._prefill + self._path
        try:
            async with self.post(url, dispatch.prefill_body(self._body), self._name) as response:
                answer = await response.read()
        except (ClientError, OSError) as error:
            self._router.forget(self._prefill)
            raise LegFailed(502, f"prefill engine {self._prefill}: {error or type(error).__name__}") from error
        tell("prefill_returned", self._name)
        if response.status != 200:
            raise LegFailed(response.status, f"prefill engine {self._prefill}: {answer.decode(errors='replace')}")
        try:
            params = dispatch.returned_params(answer)
        except InputError as error:
            raise LegFailed(502, str(error)) from error
        self._router.learn(self._prefill, params)
        return params

    async def decoded(self, params: Body) -> Answer:
        """Send the decode leg; yields its response once the body's first piece is there, then the pieces."""
        if self._conduct.drop == "decode":
            raise LegFailed(502, "the decode leg was dropped on purpose")
        tell("decode_sent", self._name)
        name = self._name + (self._conduct.rename or "")
        leg = dispatch.faulty_body(self._conduct, dispatch.decode_body(self._body, params))
        try:
            async with self.post(self._decode + self._path, leg, name) as response:
                first = await response.content.readany()
                tell("first_byte", self._name)
                yield response
                yield first
                async for piece in response.content.iter_any():
                    yield piece
        except (ClientError, OSError) as error:
            raise LegFailed(502, f"decode engine {self._decode}: {error or type(error).__name__}") from error

    def post(self, url: str, body: Body, name: str) -> contextlib.AbstractAsyncContextManager[ClientResponse]:
        """A leg."""
        return self._router.session.post(url, json=body, headers={"X-Request-Id": name})


async def racing(answer: Answer, prefill: asyncio.Task[Body]) -> Answer:
    """`answer`, unless prefill fails before it has begun: then decode would wait in vain."""
    first = asyncio.ensure_future(anext(answer))
    try:
        await asyncio.wait({first, prefill}, return_when=asyncio.FIRST_COMPLETED)
        if not first.done():
            await prefill
        yield await first
    finally:
        await settled(first)
    async for piece in answer:
        yield piece


async def settled(task: asyncio.Future[Body] | asyncio.Future[ClientResponse | bytes]) -> None:
    """End a task that nobody waits for any more; what became of it was told already, or no longer matters."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()


async def never() -> Body:
    """Wait until cancelled."""
    forever: asyncio.Future[Body] = asyncio.get_running_loop().create_future()
    return await forever


async def relay(request: web.Request, name: str, answer: Answer) -> web.StreamResponse:
    """Pass an answer on to the client, piece by piece. LegFailed: there is none."""
    head = await anext(answer)
    assert isinstance(head, ClientResponse)
    headers = {key: value for key, value in head.headers.items() if key.lower() not in HOP_BY_HOP}
    response = web.StreamResponse(status=head.status, headers={**headers, "X-Request-Id": name})
    await response.prepare(request)
    try:
        async for piece in answer:
            assert isinstance(piece, bytes)
            await response.write(piece)
        await response.write_eof()
    except LegFailed:
        # Too late for a status: an answer cut short is how a client learns of it.
        if request.transport is not None:
            request.transport.close()
    return response


def tell(moment: str, name: str) -> None:
    """Record a moment of the router's."""
    recorder.record(MOMENT_CODE[moment], LEG, name)


def describe(conduct: Conduct) -> None:
    """Say what this router is and how it dispatches, for whoever compares recordings."""
    told = {"engine": os.environ.get("KVSCOPE_ENGINE", "router"), "kind": "router", "name": "kvscope-lab"}
    recorder.describe({**told, "version": version("kvscope"), "dispatch": conduct.dispatch, "hold_ms": conduct.hold_ms})


def application(router: Router) -> web.Application:
    """The routes."""
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/v1/completions", router.serve)
    app.router.add_post("/v1/chat/completions", router.serve)
    app.router.add_route("*", "/control", router.control)
    app.router.add_get("/health", healthy)
    app.on_cleanup.append(router.close)
    return app


async def healthy(_: web.Request) -> web.Response:
    """Answer that it is up."""
    return web.Response(text="ok")


async def listen(router: Router, host: str, port: int) -> None:
    """Serve until cancelled. A client that goes away takes its request's legs with it."""
    runner = web.AppRunner(application(router), handler_cancellation=True, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        print(f"{READY}http://{host}:{runner.addresses[0][1]}", flush=True)
        await asyncio.get_running_loop().create_future()
    finally:
        await runner.cleanup()


def main(argv: Sequence[str] | None = None) -> None:
    """Run a router."""
    parser = argparse.ArgumentParser(prog="python -m kvscope.lab.router", description=__doc__)
    parser.add_argument("--connector", choices=("push", "pull"), required=True)
    parser.add_argument("--prefill", action="append", required=True, metavar="URL")
    parser.add_argument("--decode", action="append", required=True, metavar="URL")
    parser.add_argument("--dispatch", choices=("early", "sequential"), default="sequential")
    parser.add_argument("--hold", type=float, default=0.0, metavar="MS")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    args = parser.parse_args(argv)
    recorder.set_main_role("router")
    router = Router(args.connector, args.prefill, args.decode, Conduct(args.dispatch, args.hold))
    describe(router.conduct)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(listen(router, args.host, args.port))


if __name__ == "__main__":
    main()
